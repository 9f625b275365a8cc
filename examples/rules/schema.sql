-- An application's tables as they might have been there for years. Nothing in them knows of embedq; only the column
-- `embedding` was added for the vectors.
CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE IF NOT EXISTS projects (
  id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text NOT NULL UNIQUE
);

CREATE TABLE IF NOT EXISTS rules (
  id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  rule_id    text NOT NULL UNIQUE,                -- what people call it
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  title      text NOT NULL,
  guidance   text NOT NULL,
  rationale  text,
  priority   text NOT NULL DEFAULT 'medium' CHECK (priority IN ('critical', 'high', 'medium', 'low')),
  owner      text,
  embedding  vector(384),                         -- as long as the vectors of the embedder that is chosen
  updated_at timestamptz NOT NULL DEFAULT now()
);
