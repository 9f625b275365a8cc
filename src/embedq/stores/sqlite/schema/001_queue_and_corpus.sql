-- Every name begins with embedq_, so that an application can keep its own tables in the same file.

-- The corpus: collections, the spaces that embed them, records, their vectors.

CREATE TABLE embedq_space (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  provider   TEXT NOT NULL,
  model      TEXT NOT NULL,
  asked      INTEGER NOT NULL DEFAULT 0,   -- dimensions named by people; 0: whatever the model has
  version    INTEGER NOT NULL DEFAULT 1,
  dimensions INTEGER,                      -- fixed by the first good answer
  held_since INTEGER NOT NULL DEFAULT 0,   -- a hold keeps the whole fleet from asking the provider
  held_until INTEGER NOT NULL DEFAULT 0,
  success_at INTEGER NOT NULL DEFAULT 0,   -- the last stored vector: "refused for an hour without one success"
  UNIQUE (provider, model, asked, version)
);

CREATE TABLE embedq_collection (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT UNIQUE,                  -- NULL: dropped, its rows are being removed
  space      INTEGER NOT NULL REFERENCES embedq_space,
  text_from  TEXT,                         -- JSON list of attribute names
  priority   INTEGER NOT NULL,
  retry      TEXT NOT NULL,                -- JSON
  created_at INTEGER NOT NULL,
  recompose  TEXT                          -- the last record id whose text was made anew; NULL: none is left to do
);

CREATE TABLE embedq_record (
  rid             INTEGER PRIMARY KEY AUTOINCREMENT,
  collection      INTEGER NOT NULL,
  id              TEXT NOT NULL,
  hash            BLOB NOT NULL,
  valid_to        INTEGER,                 -- NULL: live
  text            TEXT NOT NULL,
  attributes      TEXT NOT NULL,
  tenant          TEXT,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  given_up_hash   BLOB,                    -- the text that was given up on: outlives its dead letter
  given_up_reason TEXT,
  UNIQUE (collection, id)
);
CREATE INDEX embedq_record_given_up ON embedq_record (collection, rid) WHERE given_up_hash IS NOT NULL;

-- One row per vector that search may serve. `seq` grows with every change, so an index follows by it; a NULL embedding
-- tells it that the vector is gone.
CREATE TABLE embedq_vector (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  record    INTEGER NOT NULL,
  space     INTEGER NOT NULL,
  hash      BLOB NOT NULL,
  truncated INTEGER NOT NULL DEFAULT 0,
  embedding BLOB,
  UNIQUE (record, space)
);
CREATE INDEX embedq_vector_by_hash ON embedq_vector (substr(hash, 1, 8)) WHERE embedding IS NOT NULL;  -- small, to find what can be reused
CREATE INDEX embedq_vector_gone ON embedq_vector (seq) WHERE embedding IS NULL;
CREATE INDEX embedq_vector_truncated ON embedq_vector (record) WHERE truncated = 1;

-- Vectors that were paid for and fit no record now.
CREATE TABLE embedq_spare (
  space     INTEGER NOT NULL,
  hash      BLOB NOT NULL,
  paid_at   INTEGER NOT NULL,
  embedding BLOB NOT NULL,
  PRIMARY KEY (space, hash)
);

-- Live records without a vector of their current text.
CREATE TABLE embedq_missing (
  collection INTEGER NOT NULL,
  record     INTEGER NOT NULL,
  PRIMARY KEY (collection, record)
) WITHOUT ROWID;

CREATE VIRTUAL TABLE embedq_words USING fts5 (text, content = 'embedq_record', content_rowid = 'rid');

-- The queue. A job row is written at put and at settle, never at lease. Runnable is a row in `ready`, waiting is a row
-- in `later`, leased is neither: its id stands in a `lease` row.

CREATE TABLE embedq_job (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  record        INTEGER NOT NULL,
  collection    INTEGER NOT NULL,
  space         INTEGER NOT NULL,
  status        INTEGER NOT NULL DEFAULT 0,  -- 0 open (pending or leased), 2 completed, 3 failed, 4 cancelled
  priority      INTEGER NOT NULL,
  queued_at     INTEGER NOT NULL,
  token         INTEGER NOT NULL DEFAULT 0,  -- of the last lease that ended
  arm           INTEGER NOT NULL DEFAULT 0,  -- the newest lease number when it was armed: armed since a lease if >= its token
  hash          BLOB NOT NULL,
  forced        INTEGER NOT NULL DEFAULT 0,
  attempts      INTEGER NOT NULL DEFAULT 0,
  crashes       INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL,
  started_at    INTEGER,
  completed_at  INTEGER,
  first_at      INTEGER,                     -- first and last failed attempt
  last_at       INTEGER,
  refused_at    INTEGER,                     -- since when the provider itself says "not now" to this job
  worker        INTEGER,
  reason        TEXT,
  error         TEXT,                        -- JSON
  UNIQUE (record, space)
);
CREATE INDEX embedq_job_waiting ON embedq_job (collection, queued_at)
  WHERE status = 0 AND (attempts > 0 OR refused_at IS NOT NULL);  -- none names a job that simply runs: settling is hot
CREATE INDEX embedq_job_retrying ON embedq_job (id) WHERE status = 0 AND attempts > 0;
CREATE INDEX embedq_job_failed ON embedq_job (id) WHERE status = 3;
CREATE INDEX embedq_job_cancelled ON embedq_job (id) WHERE status = 4;

-- key = lane * 2^48 + queued_at, so that one index serves strict lanes and age within them.
CREATE TABLE embedq_ready (
  space      INTEGER NOT NULL,
  key        INTEGER NOT NULL,
  job        INTEGER NOT NULL,
  collection INTEGER NOT NULL,
  PRIMARY KEY (space, key, job)
) WITHOUT ROWID;

CREATE TABLE embedq_later (
  due   INTEGER NOT NULL,
  job   INTEGER NOT NULL,
  since INTEGER NOT NULL,                    -- a wait that begins in the future was written before the clock was set back
  PRIMARY KEY (due, job)
) WITHOUT ROWID;
CREATE INDEX embedq_later_job ON embedq_later (job);
CREATE INDEX embedq_later_since ON embedq_later (since);

CREATE TABLE embedq_lease (
  token   INTEGER PRIMARY KEY AUTOINCREMENT,
  worker  INTEGER NOT NULL,
  space   INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  renewed INTEGER NOT NULL,
  until   INTEGER NOT NULL,
  jobs    TEXT NOT NULL                      -- JSON list of job ids
);

-- Sums kept with every change, so that a million finished jobs cost a status nothing.
CREATE TABLE embedq_tally (
  collection INTEGER PRIMARY KEY,
  open       INTEGER NOT NULL DEFAULT 0,
  completed  INTEGER NOT NULL DEFAULT 0,
  failed     INTEGER NOT NULL DEFAULT 0,
  cancelled  INTEGER NOT NULL DEFAULT 0,
  records    INTEGER NOT NULL DEFAULT 0,
  missing    INTEGER NOT NULL DEFAULT 0
);

-- The fleet.

CREATE TABLE embedq_worker (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT NOT NULL UNIQUE,
  host       TEXT NOT NULL,
  boot       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  born       TEXT NOT NULL,
  version    TEXT NOT NULL,
  embedder   TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  gone       INTEGER NOT NULL DEFAULT 0,
  report     TEXT NOT NULL DEFAULT '{}'
);

CREATE TABLE embedq_request (
  space INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (space, at, n)
) WITHOUT ROWID;

CREATE TABLE embedq_control (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO embedq_control VALUES ('schema', 1), ('paused', 0), ('resumes', 0), ('forgotten_seq', 0);
