-- Lock live records and their jobs, for arming.
CREATE FUNCTION hold_records(p_space int, p_records bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  PERFORM FROM record x WHERE x.rid = ANY (p_records) ORDER BY x.rid FOR NO KEY UPDATE;
  PERFORM FROM job j WHERE j.id = ANY (ARRAY(SELECT (u.rid << 12) | p_space FROM unnest(p_records) u (rid)))
    ORDER BY j.id FOR NO KEY UPDATE;
END
$$;

-- Change the jobs of live records that are as they were when the rules were asked about them [2]: neither the record nor its
-- job, known by the transactions that last wrote them, has changed since. `p_arms`: true arms the job; false moves one that
-- is on its way up to a higher lane; NULL only looks. Answer with the records that were unchanged, and their jobs.
CREATE FUNCTION arm_unchanged(
  p_collection int, p_space int, p_records bigint[], p_versions bigint[], p_job_versions bigint[],
  p_priorities smallint[], p_arms boolean[], p_forced boolean, p_now timestamptz
) RETURNS TABLE (rid bigint, job bigint, serial bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  a record;
BEGIN
  PERFORM hold_records(p_space, p_records);
  SELECT array_agg(x.rid) AS unchanged, array_agg(x.rid) FILTER (WHERE u.arms) AS armed,
    array_agg(x.hash) FILTER (WHERE u.arms) AS hashes, array_agg(u.priority) FILTER (WHERE u.arms) AS priorities,
    array_agg(j.id) FILTER (WHERE NOT u.arms) AS raised, array_agg(u.priority) FILTER (WHERE NOT u.arms) AS lanes INTO a
  FROM unnest(p_records, p_versions, p_job_versions, p_priorities, p_arms) u (rid, version, job_version, priority, arms)
  JOIN record x ON x.rid = u.rid AND x.collection = p_collection AND x.xmin::text::bigint = u.version
  LEFT JOIN job j ON j.id = (x.rid << 12) | p_space
  WHERE x.valid_to IS NULL AND j.xmin::text::bigint IS NOT DISTINCT FROM u.job_version;
  IF a.armed IS NOT NULL THEN
    PERFORM arm(p_collection, p_space, a.armed, a.hashes, a.priorities, p_forced, coalesce(p_now, clock_timestamp()));
  END IF;
  IF a.raised IS NOT NULL THEN
    PERFORM raise_priority(a.raised, a.lanes);
  END IF;
  RETURN QUERY SELECT u.rid, j.id, j.serial FROM unnest(a.unchanged) u (rid) LEFT JOIN job j ON j.id = (u.rid << 12) | p_space;
END
$$;

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

-- Delete some spare vectors of before a moment, and workers that were not seen since and hold nothing.
CREATE FUNCTION purge_rest(p_before timestamptz, p_limit int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  removed int;
BEGIN
  DELETE FROM spare WHERE ctid = ANY (ARRAY(
    SELECT s.ctid FROM spare s WHERE s.paid_at < p_before LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS removed = ROW_COUNT;
  DELETE FROM worker w WHERE w.seen_at < p_before AND NOT EXISTS (SELECT FROM lease l WHERE l.worker = w.id);
  PERFORM fold();
  RETURN removed;
END
$$;

-- Say since when the oldest open job of a collection waits: in the line or the waiting room (its first in each lane), or
-- under a lease.
CREATE FUNCTION oldest(p_collection int, p_space int) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  best bigint;
  first bigint;
  waiting bigint;
  leased timestamptz;
BEGIN
  FOR lane IN 0..7 LOOP
    SELECT r.key & ((1::bigint << 48) - 1) INTO first FROM ready r
      WHERE r.space = p_space AND r.key >= lane::bigint << 48 AND r.key < (lane + 1)::bigint << 48
        AND r.collection = p_collection ORDER BY r.key LIMIT 1;
    SELECT l.key & ((1::bigint << 48) - 1) INTO waiting FROM later l
      WHERE l.collection = p_collection AND l.key >= lane::bigint << 48 AND l.key < (lane + 1)::bigint << 48
      ORDER BY l.key LIMIT 1;
    best := least(best, first, waiting);
  END LOOP;
  SELECT min(j.queued_at) INTO leased FROM lease l CROSS JOIN unnest(l.jobs, l.arms) u (id, arms)
    JOIN job j ON j.id = u.id WHERE j.collection = p_collection AND j.status = 0 AND j.fence <= u.arms;
  RETURN least(to_timestamp(best / 1000.0), leased);
END
$$;
