-- Which functions are installed. They are not migrated but replaced as a whole, by a version whose functions differ.
CREATE TABLE functions (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  version text NOT NULL,                        -- of the embedq that installed them
  digest  text NOT NULL                         -- of their source
);
