-- By which language the words of a collection are stemmed: `simple` where nobody has said one, as before.
ALTER TABLE collection
  ADD COLUMN language text NOT NULL DEFAULT 'simple' CHECK (language IN (
    'simple', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german',
    'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese',
    'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish')),
  ADD COLUMN former text[] NOT NULL DEFAULT '{}' CHECK (cardinality(former) <= 100 AND former <@ ARRAY[
    'simple', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german',
    'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese',
    'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish']),  -- by which some are indexed
  ADD COLUMN counted bigint NOT NULL DEFAULT 0,                  -- its records when its words were last counted
  ADD COLUMN mean_words real NOT NULL DEFAULT 0;                 -- different words of a record, in the mean, at that time

-- The words of a record are written with it, by its collection's language and with its collection's mark. Those that were
-- computed before have none: they are indexed anew in the background, and found meanwhile.
ALTER TABLE record ALTER COLUMN words DROP EXPRESSION;
UPDATE collection SET former = '{simple}' WHERE name IS NOT NULL;

-- How far the words of a collection are indexed anew: the last record id. Not in its own row, which writers read for sure.
CREATE TABLE reindex (
  collection int PRIMARY KEY REFERENCES collection ON DELETE CASCADE,
  after      text NOT NULL COLLATE "C" CHECK (octet_length(after) <= 512)
);
INSERT INTO reindex SELECT id, '' FROM collection WHERE name IS NOT NULL;

-- In how many records of a collection a word stands, as of the last count. Words of one or two records are left out.
CREATE TABLE lexeme (
  collection int NOT NULL REFERENCES collection ON DELETE CASCADE,
  word       text NOT NULL COLLATE "C",
  records    bigint NOT NULL,
  PRIMARY KEY (collection, word)
);
