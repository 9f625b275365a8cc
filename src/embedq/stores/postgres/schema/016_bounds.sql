-- A row that a role may write must also have values that every process can compute with.
ALTER TABLE collection ALTER created_at SET DEFAULT clock_timestamp();
ALTER TABLE collection
  ADD CONSTRAINT collection_retry_bounds CHECK (octet_length(retry) <= 1000 AND coalesce(
    (retry::jsonb ->> 'base')::numeric BETWEEN 0 AND 1e9 AND (retry::jsonb ->> 'cap')::numeric BETWEEN 0 AND 1e9
    AND (retry::jsonb ->> 'factor')::numeric BETWEEN 0 AND 1e300 AND (retry::jsonb ->> 'jitter')::numeric BETWEEN 0 AND 1
    AND (retry::jsonb ->> 'max_attempts')::numeric BETWEEN 1 AND 1e6
    AND (retry::jsonb ->> 'max_attempts')::numeric % 1 = 0, false)) NOT VALID,
  ADD CONSTRAINT collection_text_from_names CHECK (octet_length(text_from) <= 100000
    AND NOT jsonb_path_exists(text_from::jsonb, 'strict $[*] ? (@.type() != "string")')) NOT VALID,
  ADD CONSTRAINT collection_recompose CHECK (octet_length(recompose) <= 512) NOT VALID,
  ADD CONSTRAINT collection_created_at CHECK (created_at BETWEEN '1970-01-01' AND '2200-01-01') NOT VALID;
ALTER TABLE space ADD CONSTRAINT space_asked CHECK (asked BETWEEN 0 AND 1000000) NOT VALID;
