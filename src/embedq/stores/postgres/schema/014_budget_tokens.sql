-- A budget counts tokens beside requests, and a row of its log may stand for several requests.
ALTER TABLE request
  ADD COLUMN requests int NOT NULL DEFAULT 1,
  ADD COLUMN tokens bigint NOT NULL DEFAULT 0;
