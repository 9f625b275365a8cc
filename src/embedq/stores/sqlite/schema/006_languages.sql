-- By which language the words of a collection are stemmed: `simple` where nobody has said one, as before.
ALTER TABLE embedq_collection ADD COLUMN language TEXT NOT NULL DEFAULT 'simple';
