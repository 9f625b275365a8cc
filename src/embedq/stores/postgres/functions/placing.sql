-- Name jobs that are not in their one place: open, and not just once in the line where their row says, waiting, or
-- under a lease; or in a place and not open. One statement, so one snapshot: no job is seen on the way from one to
-- another.
CREATE FUNCTION misplaced(p_jobs bigint[], p_limit int) RETURNS TABLE (job bigint, serial bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  WITH place AS (
    SELECT r.job, r.key FROM ready r UNION ALL SELECT l.job, NULL FROM later l
    UNION ALL SELECT u.job, NULL FROM lease l CROSS JOIN unnest(l.jobs, l.arms) u (job, arms)
      JOIN job j ON j.id = u.job AND j.status = 0 AND j.fence <= u.arms),
  counted AS (
    SELECT p.job,
      sum(CASE WHEN p.key = place(j.priority, j.crashes, j.queued_at) OR p.key IS NULL THEN 1 ELSE 2 END) AS n
    FROM place p LEFT JOIN job j ON j.id = p.job GROUP BY p.job)
  SELECT coalesce(j.id, c.job), coalesce(j.serial, 0) FROM job j FULL JOIN counted c ON c.job = j.id
  WHERE coalesce(c.n, 0) <> coalesce((j.status = 0)::int, 0)
    AND (p_jobs IS NULL OR coalesce(j.id, c.job) = ANY (p_jobs))
  ORDER BY 1 LIMIT p_limit
$$;

-- Take misplaced jobs from wherever they are, and put those that are open into the line. A lease that named one holds
-- it no longer, as if it was armed.
CREATE FUNCTION put_in_place(p_jobs bigint[]) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  wrong bigint[];
BEGIN
  PERFORM require_read_committed();
  PERFORM FROM job j WHERE j.id = ANY (p_jobs) ORDER BY j.id FOR NO KEY UPDATE;
  wrong := ARRAY(SELECT m.job FROM misplaced(p_jobs, NULL) m);
  DELETE FROM later l WHERE l.job = ANY (wrong);
  DELETE FROM ready r WHERE r.job = ANY (wrong);
  UPDATE job SET arms = arms + 1, fence = arms + 1 WHERE id = ANY (wrong) AND status = 0;
  PERFORM queue(wrong);
  RETURN cardinality(wrong);
END
$$;
