-- The corpus: collections, the spaces that embed them, records; each space's vectors are a table of their own.

CREATE TABLE space (
  id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (id < 4096),  -- it is part of a job's key
  provider   text NOT NULL,
  model      text NOT NULL,
  asked      int NOT NULL DEFAULT 0,            -- dimensions named by people; 0: whatever the model has
  version    int NOT NULL DEFAULT 1,
  dimensions int,                               -- fixed by the first good answer; then there is a table vector_ID
  held_since timestamptz NOT NULL DEFAULT '-infinity',  -- a hold keeps the whole fleet from asking the provider
  held_until timestamptz NOT NULL DEFAULT '-infinity',
  success_at timestamptz NOT NULL DEFAULT '-infinity',  -- the last stored vector: "refused for an hour without one success"
  UNIQUE (provider, model, asked, version)
);

CREATE TABLE collection (
  id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text UNIQUE,                       -- NULL: dropped, its rows are being removed
  space      int NOT NULL REFERENCES space,
  revision   int NOT NULL DEFAULT 1,            -- grows with every change: a writer that knows an older one is told
  text_from  text,                              -- JSON list of attribute names
  priority   smallint NOT NULL,
  retry      text NOT NULL,                     -- JSON
  created_at timestamptz NOT NULL,
  recompose  text                               -- the last record id whose text was made anew; NULL: none is left to do
);

CREATE SEQUENCE record_rid;

CREATE TABLE record (
  rid        bigint PRIMARY KEY DEFAULT nextval('record_rid'),
  collection int NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  valid_to   timestamptz,                       -- NULL: live
  hash       bytea NOT NULL,                    -- of the text; empty once it was removed for good
  id         text NOT NULL COLLATE "C",
  tenant     text COLLATE "C",
  text       text NOT NULL,
  attributes jsonb NOT NULL,
  words      tsvector GENERATED ALWAYS AS (to_tsvector('pg_catalog.simple'::regconfig, left(text, 100000))) STORED,
  UNIQUE (collection, id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER SEQUENCE record_rid OWNED BY record.rid;
CREATE INDEX record_words ON record USING gin (words);

-- Texts that were given up on, and why: it outlives their dead letters. Beside the record, so that no worker ever
-- has to lock a record that an application holds.
CREATE TABLE given_up (
  collection int NOT NULL,
  record     bigint NOT NULL,
  hash       bytea NOT NULL,
  reason     text NOT NULL,
  PRIMARY KEY (collection, record)
);

-- Live records without a vector of their current text.
CREATE TABLE missing (
  collection int NOT NULL,
  record     bigint NOT NULL,
  PRIMARY KEY (collection, record)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);

-- Vectors that were paid for and fit no record now.
CREATE TABLE spare (
  space     int NOT NULL,
  hash      bytea NOT NULL,
  paid_at   timestamptz NOT NULL,
  embedding vector NOT NULL,
  PRIMARY KEY (space, hash)
);

-- The queue. A job row is written at put and at settle, never at lease. Runnable is a row in `ready`, waiting is a row
-- in `later`, leased is neither: its key stands in a `lease` row.

CREATE TABLE job (
  id           bigint PRIMARY KEY,              -- rid << 12 | space: no second unique index, no look-up of a job by its record
  serial       bigint NOT NULL,                 -- taken from record_rid: a key comes back after a purge, a serial never does
  token        bigint NOT NULL DEFAULT 0,       -- of the last lease that ended
  queued_at    timestamptz NOT NULL,
  created_at   timestamptz NOT NULL,
  started_at   timestamptz,
  completed_at timestamptz,
  failed_at    timestamptz,                     -- set only while failed: indexing `status` itself would end HOT updates
  cancelled_at timestamptz,                     -- set only while cancelled
  first_at     timestamptz,                     -- first and last failed attempt
  last_at      timestamptz,
  refused_at   timestamptz,                     -- since when the provider itself says "not now" to this job
  collection   int NOT NULL,
  arms         int NOT NULL DEFAULT 1,          -- grows with every arm: a settle compares it with what its lease read
  leased_arms  int NOT NULL DEFAULT 0,          -- what the last lease had read, if it did not complete the job
  worker       int,
  status       smallint NOT NULL DEFAULT 0,     -- 0 open (pending or leased), 2 completed, 3 failed, 4 cancelled
  priority     smallint NOT NULL,
  attempts     smallint NOT NULL DEFAULT 0,
  crashes      smallint NOT NULL DEFAULT 0,
  forced       boolean NOT NULL DEFAULT false,
  retrying     boolean NOT NULL DEFAULT false,  -- open with failures behind it
  hash         bytea NOT NULL,
  reason       text,
  error        text                             -- JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX job_failed ON job (id) WHERE failed_at IS NOT NULL;
CREATE INDEX job_cancelled ON job (id) WHERE cancelled_at IS NOT NULL;
CREATE INDEX job_retrying ON job (id) WHERE retrying;

-- key = lane * 2^48 + queued_at in ms, so that one index serves strict lanes and age within them. Rows are never updated.
CREATE TABLE ready (
  space      int NOT NULL,
  collection int NOT NULL,
  key        bigint NOT NULL,
  job        bigint NOT NULL,
  arms       int NOT NULL,                      -- the job's: whoever arms it queues it anew
  kind       smallint NOT NULL                  -- what a lease must know: 1 forced, 2 perhaps embedded, 4 with a history
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE UNIQUE INDEX ready_line ON ready (space, key, job);

CREATE TABLE later (
  due        timestamptz NOT NULL,
  since      timestamptz NOT NULL,              -- a wait that begins in the future was written before the clock was set back
  space      int NOT NULL,
  collection int NOT NULL,
  key        bigint NOT NULL,                   -- its place in the line, when it is due
  job        bigint PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);
CREATE INDEX later_due ON later (due, job);
CREATE INDEX later_since ON later (since);
CREATE INDEX later_place ON later (collection, key);

CREATE SEQUENCE lease_token;

CREATE TABLE lease (
  token   bigint PRIMARY KEY,
  since   timestamptz NOT NULL,
  renewed timestamptz NOT NULL,                 -- not indexed, nor is `until`: a renewal stays a HOT update
  until   timestamptz NOT NULL,
  worker  int NOT NULL,
  space   int NOT NULL,
  queued  timestamptz NOT NULL,                 -- since when its jobs waited, in the mean
  fresh   boolean NOT NULL,                     -- none of its records can have a vector yet
  nonce   bigint NOT NULL,                      -- drawn by the caller: finds the lease whose answer was lost on the way
  jobs    bigint[] NOT NULL,                    -- ascending
  arms    int[] NOT NULL                        -- job.arms, read together with the text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Changes of a collection's sums, one narrow row per transaction: no row is hot. Read as a sum, folded now and then.
CREATE TABLE tally (
  collection int NOT NULL,
  open       int NOT NULL DEFAULT 0,
  completed  int NOT NULL DEFAULT 0,
  failed     int NOT NULL DEFAULT 0,
  cancelled  int NOT NULL DEFAULT 0,
  records    int NOT NULL DEFAULT 0,
  missing    int NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The fleet.

CREATE TABLE worker (
  id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text NOT NULL UNIQUE,
  host       text NOT NULL DEFAULT '',
  boot       text NOT NULL DEFAULT '',
  pid        bigint NOT NULL DEFAULT 0,
  born       text NOT NULL DEFAULT '',
  version    text NOT NULL DEFAULT '',
  embedder   text NOT NULL DEFAULT '',
  started_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL,
  gone       boolean NOT NULL DEFAULT false,
  report     text NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

CREATE TABLE request (
  space int NOT NULL,
  at    timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX request_at ON request (space, at);

-- One row: whether anybody may lease, how often resume was called, and a count of changes to collections and spaces.
CREATE TABLE control (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  paused  boolean NOT NULL DEFAULT false,
  resumes bigint NOT NULL DEFAULT 0,
  epoch   bigint NOT NULL DEFAULT 1
);
INSERT INTO control DEFAULT VALUES;

-- Where all tables of a database are published, rows that nothing identifies could not be deleted.
ALTER TABLE ready REPLICA IDENTITY USING INDEX ready_line;
ALTER TABLE tally REPLICA IDENTITY FULL;
ALTER TABLE request REPLICA IDENTITY FULL;

-- Until somebody analyses a table, the planner takes a collection for a 200th of it, and prefers to walk through all of
-- one. So it is told of ten collections of the same size; what it learned stays when these rows go.
INSERT INTO record (rid, collection, id, hash, text, attributes, created_at, updated_at)
  SELECT n, n % 10 + 1, n, '', '', '{}', now(), now() FROM generate_series(1, 1000) n;
INSERT INTO missing SELECT collection, rid FROM record;
INSERT INTO given_up SELECT collection, rid, '', '' FROM record;
ANALYZE record (collection, id, valid_to);
ANALYZE missing;
ANALYZE given_up (collection, record);
TRUNCATE record, missing, given_up;
