-- What this database holds: records and their jobs, records alone, or jobs alone. Jobs alone know their records by name, and
-- records alone are given no jobs: both are in another database.
ALTER TABLE control ADD COLUMN holds text NOT NULL DEFAULT 'both' CHECK (holds IN ('both', 'records', 'jobs'));
