-- By which language the words of a collection are stemmed: `simple` where nobody has said one, as before.
ALTER TABLE collection ADD COLUMN language text NOT NULL DEFAULT 'simple' CHECK (language IN (
  'simple', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german', 'greek',
  'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese', 'romanian',
  'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish'));
