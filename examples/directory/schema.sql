-- The application's own table. Its vectors, jobs and dead letters live beside it, in embedq's schema.
CREATE TABLE IF NOT EXISTS yellow_book_entry (
  id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name        text NOT NULL,
  description text,                               -- NULL: nothing to embed, so embedq holds no record of it
  categories  text[] NOT NULL DEFAULT '{}',
  city        text,
  phone       text,
  website     text,
  created_at  timestamptz NOT NULL DEFAULT now(),
  updated_at  timestamptz NOT NULL DEFAULT now()
);

-- An entry without a description is found by its words only, and only here.
CREATE OR REPLACE FUNCTION yellow_book_words(name text, categories text[], city text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT to_tsvector('pg_catalog.simple', concat_ws(' ', name, array_to_string(categories, ' '), city))
$$;
CREATE INDEX IF NOT EXISTS yellow_book_entry_words
  ON yellow_book_entry USING gin (yellow_book_words(name, categories, city)) WHERE description IS NULL;
