-- A lease is known by its token and its nonce: a sequence goes back after a failover or a restore, a nonce never comes again.
ALTER TABLE job
  ADD COLUMN nonce bigint NOT NULL DEFAULT 0,         -- of the last lease that ended, with its token
  ADD COLUMN fence int NOT NULL DEFAULT 0;            -- leases that read fewer arms than this no longer hold the job

-- Nobody works on what an idle lease still names: it is taken back without counting a crash.
ALTER TABLE lease ADD COLUMN idle boolean NOT NULL DEFAULT false;

-- The newest lease when the text was last removed for good: what that lease or an older one still brings is not kept.
ALTER TABLE record ADD COLUMN erased bigint;

-- Where the tokens of this installation begin. A new one begins anywhere, so that a lease of a schema that was dropped is
-- not taken for one of the schema that came after it, whose spaces are others.
ALTER TABLE control ADD COLUMN first_token bigint NOT NULL DEFAULT 0;
UPDATE control SET first_token = floor(random() * 1000000000)::bigint << 30
  WHERE NOT EXISTS (SELECT FROM record) AND NOT (SELECT t.is_called FROM lease_token t);
SELECT setval('lease_token', c.first_token) FROM control c WHERE c.first_token > 0;
