-- The dashboards. They read embedq's own tables, which are its business: a new version of embedq may want these views
-- written anew. Each is one pass over the jobs, which retention keeps few.

-- How many jobs there are of each status and priority, how long they took, and since when they are there. A job is
-- leased while a lease names it: its own row is written before and after, never in between.
CREATE OR REPLACE VIEW embedding_job_health AS
SELECT c.name AS collection,
  CASE WHEN g.leased THEN 'processing' WHEN g.retrying THEN 'retrying'
    ELSE (ARRAY['pending', 'processing', 'completed', 'failed', 'cancelled'])[g.status + 1] END AS status,
  (ARRAY['low', 'normal', 'high', 'urgent'])[g.priority + 1] AS priority,
  g.count, g.avg_time_ms, g.newest, g.oldest
FROM (  -- grouped by narrow facts, and only then put into words: the jobs are not sorted
  SELECT j.collection, j.status, j.priority,
    j.status = 0 AND l.job IS NOT NULL AS leased,
    j.status = 0 AND l.job IS NULL AND j.retrying AS retrying,
    count(*) AS count,
    round(avg(1000 * extract(epoch FROM j.completed_at - j.started_at)) FILTER (WHERE j.status = 2)) AS avg_time_ms,
    max(j.created_at) AS newest,
    min(j.created_at) AS oldest
  FROM embedq.job j LEFT JOIN (SELECT DISTINCT unnest(jobs) AS job FROM embedq.lease) l ON l.job = j.id
  GROUP BY 1, 2, 3, 4, 5) g
JOIN embedq.collection c ON c.id = g.collection AND c.name IS NOT NULL
ORDER BY c.name, g.priority DESC, 2;

-- What each worker did within a day.
CREATE OR REPLACE VIEW embedding_worker_performance AS
SELECT coalesce(w.name, 'unknown') AS worker_id,
  count(*) FILTER (WHERE j.status = 2) AS jobs_completed,
  round(avg(1000 * extract(epoch FROM j.completed_at - j.started_at)) FILTER (WHERE j.status = 2)) AS avg_time_ms,
  count(*) FILTER (WHERE j.status = 3) AS failures
FROM embedq.job j
LEFT JOIN embedq.worker w ON w.id = j.worker
WHERE j.status IN (2, 3) AND j.completed_at > now() - interval '24 hours'
GROUP BY 1
ORDER BY 1;

-- Rules that were given up on, and why. It walks along an index of dead letters only.
CREATE OR REPLACE VIEW embedding_job_failures AS
SELECT x.id AS id, r.rule_id, r.title, j.reason, j.error::json ->> 'category' AS category,
  j.error::json ->> 'code' AS code, j.error::json ->> 'message' AS message, j.attempts, j.last_at AS last_attempt_at,
  j.failed_at
FROM embedq.job j
JOIN embedq.collection c ON c.id = j.collection AND c.name = 'rules'
JOIN embedq.record x ON x.rid = j.id >> 12
LEFT JOIN rules r ON r.id = CASE WHEN x.collection = c.id THEN x.id::uuid END
WHERE j.failed_at IS NOT NULL
ORDER BY j.failed_at;
