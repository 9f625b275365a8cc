-- By which language the words of a collection are stemmed: `simple` where nobody has said one, as before.
ALTER TABLE embedq_collection ADD COLUMN language TEXT NOT NULL DEFAULT 'simple';

-- Each collection has its words in a table of its own, `embedq_words_{id}_{words}`, so that what a word weighs there
-- depends on no other collection. After a change of language the next one, `words + 1`, is filled in the order of records.
ALTER TABLE embedq_collection ADD COLUMN words INTEGER NOT NULL DEFAULT 1;
ALTER TABLE embedq_collection ADD COLUMN words_filled INTEGER;  -- the last record that the next table has; NULL: there is none
DROP TABLE embedq_words;  -- a process of an older version that still runs must fail, not write past the new tables
