-- Delete some ended jobs of before a moment behind a key; answer with how many and the last of them. A lease that still
-- names one, which it holds no longer, lets go of it first: the job's fence goes with its row.
CREATE FUNCTION purge_jobs(p_after bigint, p_before timestamptz, p_limit int, OUT removed int, OUT last bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  old bigint[];
  l lease;
BEGIN
  old := ARRAY(SELECT j.id FROM job j WHERE j.id > p_after AND j.status IN (2, 3, 4) AND j.completed_at < p_before
    ORDER BY j.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  FOR l IN SELECT * FROM lease e WHERE e.jobs && old ORDER BY e.token FOR UPDATE SKIP LOCKED LOOP
    PERFORM shrink(l.token, old);
  END LOOP;
  WITH gone AS (
    DELETE FROM job WHERE id = ANY (old) AND id NOT IN (SELECT unnest(e.jobs) FROM lease e)
    RETURNING id, collection, status),
  noted AS (
    INSERT INTO tally (collection, completed, failed, cancelled)
    SELECT collection, -count(*) FILTER (WHERE status = 2), -count(*) FILTER (WHERE status = 3),
      -count(*) FILTER (WHERE status = 4) FROM gone GROUP BY collection)
  SELECT count(*), max(id) INTO removed, last FROM gone;
END
$$;

-- Say since when the oldest open job of a collection waits: in the line or the waiting room (its first in each lane),
-- or under a lease. A function, since a statement cannot keep itself from being planned for a line that was short.
CREATE FUNCTION oldest(p_collection int, p_space int) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  RETURN least((
    SELECT to_timestamp(min(least(f.key, w.key) & ((1::bigint << 48) - 1)) / 1000.0)
    FROM generate_series(0::bigint << 48, 7::bigint << 48, 1::bigint << 48) lane
    LEFT JOIN LATERAL (SELECT r.key FROM ready r WHERE r.space = p_space AND r.key >= lane
      AND r.key < lane + (1::bigint << 48) AND r.collection = p_collection ORDER BY r.key LIMIT 1) f ON true
    LEFT JOIN LATERAL (SELECT l.key FROM later l WHERE l.collection = p_collection AND l.key >= lane
      AND l.key < lane + (1::bigint << 48) ORDER BY l.key LIMIT 1) w ON true), (
    SELECT min(j.queued_at) FROM lease l CROSS JOIN unnest(l.jobs, l.arms) u (id, arms)
    JOIN job j ON j.id = u.id WHERE j.collection = p_collection AND j.status = 0 AND j.fence <= u.arms));
END
$$;
