-- What tells this database from all others, also after a restore elsewhere, and, where it holds jobs alone, whose jobs they
-- are: a worker of another corpus would find no records for them.
ALTER TABLE control ADD COLUMN identity uuid NOT NULL DEFAULT gen_random_uuid(), ADD COLUMN corpus text
  CHECK (octet_length(corpus) <= 100);
