-- Lock live records and their jobs, for arming.
CREATE FUNCTION hold_records(p_space int, p_records bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  PERFORM FROM record x WHERE x.rid = ANY (p_records) ORDER BY x.rid FOR NO KEY UPDATE;
  PERFORM FROM job j WHERE j.id = ANY (ARRAY(SELECT (u.rid << 12) | p_space FROM unnest(p_records) u (rid)))
    ORDER BY j.id FOR NO KEY UPDATE;
END
$$;

-- Arm jobs of live records by hand: forced, or where the current text has neither vector nor job, as in
-- `policy.jobs.enqueue_arms`; what is on its way keeps the higher priority. An unknown id, or one that is not the tenant's,
-- is the problem, and then nothing is written.
CREATE FUNCTION enqueue(
  p_collection int, p_space int, p_ids text[], p_force boolean, p_priority smallint, p_now timestamptz, p_tenant text
) RETURNS receipts
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  answer receipts;
  rids bigint[];
  raised bigint[];
  a record;
BEGIN
  rids := ARRAY(SELECT x.rid FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids));
  PERFORM hold_records(p_space, rids);
  SELECT u.id INTO answer.problem FROM unnest(p_ids) u (id) WHERE NOT EXISTS (
    SELECT FROM record x WHERE x.collection = p_collection AND x.id = u.id AND x.valid_to IS NULL
      AND (p_tenant IS NULL OR x.tenant = p_tenant)) LIMIT 1;
  IF answer.problem IS NOT NULL THEN
    RETURN answer;
  END IF;
  SELECT array_agg(x.rid) AS rids, array_agg(x.hash) AS hashes, array_agg(p_priority) AS priorities INTO a
  FROM record x LEFT JOIN job j ON j.id = (x.rid << 12) | p_space
  LEFT JOIN missing m ON m.collection = p_collection AND m.record = x.rid
  WHERE x.rid = ANY (rids) AND (p_force OR (m.record IS NOT NULL AND j.status IS DISTINCT FROM 0));
  IF a.rids IS NOT NULL THEN
    PERFORM arm(p_collection, p_space, a.rids, a.hashes, a.priorities, p_force, coalesce(p_now, clock_timestamp()));
  END IF;
  SELECT array_agg(j.id) INTO raised FROM job j
  WHERE j.id = ANY (ARRAY(SELECT (u.rid << 12) | p_space FROM unnest(rids) u (rid)))
    AND j.status = 0 AND j.priority < p_priority;
  IF raised IS NOT NULL THEN
    PERFORM raise_priority(raised, array_fill(p_priority, ARRAY[cardinality(raised)]));
  END IF;
  answer.space := p_space;
  RETURN read_receipts(answer, p_collection, p_ids, ARRAY(SELECT generate_subscripts(p_ids, 1)));
END
$$;

-- Arm the jobs of live records that are as they were when the rules were asked about them [2]: neither the record nor its
-- job, known by the transactions that last wrote them, has changed since. Answer with how many were.
CREATE FUNCTION arm_unchanged(
  p_collection int, p_space int, p_records bigint[], p_versions bigint[], p_job_versions bigint[],
  p_priorities smallint[], p_now timestamptz
) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  a record;
BEGIN
  PERFORM hold_records(p_space, p_records);
  SELECT array_agg(x.rid) AS rids, array_agg(x.hash) AS hashes, array_agg(u.priority) AS priorities INTO a
  FROM unnest(p_records, p_versions, p_job_versions, p_priorities) u (rid, version, job_version, priority)
  JOIN record x ON x.rid = u.rid AND x.collection = p_collection AND x.xmin::text::bigint = u.version
  LEFT JOIN job j ON j.id = (x.rid << 12) | p_space
  WHERE x.valid_to IS NULL AND j.xmin::text::bigint IS NOT DISTINCT FROM u.job_version;
  IF a.rids IS NOT NULL THEN
    PERFORM arm(p_collection, p_space, a.rids, a.hashes, a.priorities, false, coalesce(p_now, clock_timestamp()));
  END IF;
  RETURN coalesce(cardinality(a.rids), 0);
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
