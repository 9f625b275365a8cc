-- A budget counts tokens beside requests, and a row of its log may stand for several requests.
ALTER TABLE embedq_request ADD COLUMN requests INTEGER NOT NULL DEFAULT 1;
ALTER TABLE embedq_request ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
