-- What roles may write straight into tables must be what every process can read: one bad row stops all of them.
ALTER TABLE collection
  ADD CONSTRAINT collection_priority CHECK (priority BETWEEN 0 AND 3),
  ADD CONSTRAINT collection_text_from CHECK (jsonb_typeof(text_from::jsonb) = 'array'),
  ADD CONSTRAINT collection_retry CHECK (coalesce(
    jsonb_typeof(retry::jsonb -> 'base') = 'number' AND jsonb_typeof(retry::jsonb -> 'cap') = 'number'
    AND jsonb_typeof(retry::jsonb -> 'factor') = 'number' AND jsonb_typeof(retry::jsonb -> 'jitter') = 'number'
    AND jsonb_typeof(retry::jsonb -> 'max_attempts') = 'number', false));
ALTER TABLE job ADD CONSTRAINT job_priority CHECK (priority BETWEEN 0 AND 3) NOT VALID;
ALTER TABLE record
  ADD CONSTRAINT record_id CHECK (octet_length(id) BETWEEN 1 AND 512) NOT VALID,
  ADD CONSTRAINT record_created_at CHECK (created_at < '9999-01-01' AND created_at > '1900-01-01') NOT VALID;
