-- A lease is known by its token and its nonce: a file that was restored gives the same tokens again, a nonce never comes again.
ALTER TABLE embedq_lease ADD COLUMN nonce INTEGER NOT NULL DEFAULT 0;
ALTER TABLE embedq_job ADD COLUMN nonce INTEGER NOT NULL DEFAULT 0;  -- of the last lease that ended, with its token

-- The newest lease when the text was last removed for good: what that lease or an older one still brings is not kept.
ALTER TABLE embedq_record ADD COLUMN erased INTEGER;
