-- What attached tables need beside: functions that are written anew by a newer embedq, vectors that are tried again later
-- or given up on, and vectors that are adopted from the table's own column.

ALTER TABLE attachment
  ADD written   text,                                         -- the digest of what its functions and triggers were written from
  ADD obstacles text,                                         -- the table's triggers and checks, when a vector was last refused
  ADD adopting  pg_snapshot,                                  -- rows of before it have vectors of their texts; NULL: none is adopted
  ADD adopted   bigint NOT NULL DEFAULT 0;

-- By what triggers know our own copying: a table that no role but the owner reads.
CREATE TABLE copying (
  attachment int PRIMARY KEY,
  secret     text NOT NULL DEFAULT gen_random_uuid()::text
);
INSERT INTO copying (attachment) SELECT id FROM attachment;

-- A vector that the table refuses waits longer after every try, by the database's clock, and is given up on in the end.
ALTER TABLE unplaced
  ADD due      timestamptz NOT NULL DEFAULT '-infinity',
  ADD given_up boolean NOT NULL DEFAULT false;
CREATE INDEX unplaced_due ON unplaced (attachment, due) WHERE alone AND NOT given_up;
CREATE INDEX unplaced_given_up ON unplaced (record) WHERE given_up;
