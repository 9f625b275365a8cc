-- Locks, everywhere: records before jobs before leases, each in the order of its key. Any transaction that changes a
-- record's text or life holds its job's row too, so a settle that holds the job may trust what it reads of the record.

-- Refuse to act on a snapshot that is older than the locks: each statement must see what was committed before it.
CREATE FUNCTION require_read_committed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'EQ003', MESSAGE = 'embedq needs transactions that are read committed';
  END IF;
END
$$;

-- Say where a job stands in its line: its lane, then its age. Jobs that took workers down stand behind all the others
-- [8] (`policy.jobs.SOLO_CRASHES`). Read when it is made, not when it is called: no search path has a say in it.
CREATE FUNCTION place(priority smallint, crashes smallint, queued_at timestamptz) RETURNS bigint LANGUAGE sql STABLE
RETURN (((3 - priority) + CASE WHEN crashes >= 2 THEN 4 ELSE 0 END)::bigint << 48)
  + floor(date_part('epoch', queued_at) * 1000)::bigint;

-- Say what a lease must know of a job: 1 it is forced, 2 its record may have a vector, 4 it was tried or renumbered,
-- and its row has to be read.
CREATE FUNCTION kind_of(j job) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
  SELECT (2 + CASE WHEN (j).forced THEN 1 ELSE 0 END
    + CASE WHEN (j).serial <> (j).id >> 12 OR (j).attempts > 0 OR (j).crashes > 0 THEN 4 ELSE 0 END)::smallint
$$;

-- Take open jobs, whose rows are locked, out of waiting room and line; those that do not come back are leased.
-- The waiting room comes first: a job that is being promoted is found in the line by the second statement.
CREATE FUNCTION unqueue(p_jobs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  waiting bigint[];
  standing bigint[];
BEGIN
  WITH gone AS (DELETE FROM later WHERE job = ANY (p_jobs) RETURNING job)
    SELECT array_agg(job) INTO waiting FROM gone;
  WITH gone AS (
    DELETE FROM ready r USING job j
    WHERE j.id = ANY (p_jobs) AND r.space = (j.id & 4095)::int
      AND r.key = place(j.priority, j.crashes, j.queued_at) AND r.job = j.id
    RETURNING r.job)
    SELECT array_agg(job) INTO standing FROM gone;
  RETURN coalesce(waiting, '{}') || coalesce(standing, '{}');
END
$$;

-- Put open jobs, whose rows are locked, into the line.
CREATE FUNCTION queue(p_jobs bigint[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
  INSERT INTO ready (space, collection, key, job, arms, kind)
  SELECT (j.id & 4095)::int, j.collection, place(j.priority, j.crashes, j.queued_at), j.id, j.arms, kind_of(j)
  FROM job j WHERE j.id = ANY (p_jobs) AND j.status = 0
  ON CONFLICT DO NOTHING
$$;

-- Arm the jobs of records: the text now, no failures, armed since every lease there is. The caller holds the records
-- and those of their jobs that exist. A job that is leased keeps its lease: it is queued when that ends.
CREATE FUNCTION arm(
  p_collection int, p_space int, p_records bigint[], p_hashes bytea[], p_priorities smallint[], p_forced boolean,
  p_now timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  opened bigint[];
  closed bigint[];
  fresh bigint[];
  was_completed int;
  was_failed int;
  was_cancelled int;
BEGIN
  SELECT array_agg(j.id) FILTER (WHERE j.status = 0), array_agg(j.id) FILTER (WHERE j.status <> 0),
    array_agg(u.record) FILTER (WHERE j.id IS NULL),
    count(*) FILTER (WHERE j.status = 2), count(*) FILTER (WHERE j.status = 3), count(*) FILTER (WHERE j.status = 4)
  INTO opened, closed, fresh, was_completed, was_failed, was_cancelled
  FROM unnest(p_records) u (record) LEFT JOIN job j ON j.id = (u.record << 12) | p_space;
  IF opened IS NOT NULL THEN
    opened := unqueue(opened);
  END IF;
  IF cardinality(p_records) > coalesce(cardinality(fresh), 0) THEN
    UPDATE job j SET hash = u.hash, arms = j.arms + 1, attempts = 0, crashes = 0, retrying = false,
      forced = j.forced OR p_forced,
      priority = CASE j.status WHEN 0 THEN greatest(j.priority, u.priority) ELSE u.priority END,
      queued_at = CASE j.status WHEN 0 THEN j.queued_at ELSE p_now END, status = 0,
      completed_at = NULL, failed_at = NULL, cancelled_at = NULL, reason = NULL, error = NULL,
      first_at = NULL, last_at = NULL, refused_at = NULL
    FROM unnest(p_records, p_hashes, p_priorities) u (record, hash, priority)
    WHERE j.id = (u.record << 12) | p_space;
    PERFORM queue(coalesce(opened, '{}') || coalesce(closed, '{}'));
  END IF;
  IF fresh IS NOT NULL THEN
    INSERT INTO job (id, serial, collection, priority, queued_at, hash, forced, created_at)
    SELECT (u.record << 12) | p_space, nextval('record_rid'), p_collection, u.priority, p_now, u.hash, p_forced, p_now
    FROM unnest(p_records, p_hashes, p_priorities) u (record, hash, priority)
    ON CONFLICT (id) DO NOTHING;
    PERFORM queue(ARRAY(SELECT (u.record << 12) | p_space FROM unnest(fresh) u (record)));
    -- an older snapshot does not see this job: let it meet a record that has changed
    UPDATE record SET updated_at = updated_at WHERE rid = ANY (fresh);
  END IF;
  DELETE FROM given_up g WHERE g.collection = p_collection AND g.record = ANY (p_records);
  INSERT INTO tally (collection, open, completed, failed, cancelled)
  VALUES (p_collection, coalesce(cardinality(closed), 0) + coalesce(cardinality(fresh), 0),
    -was_completed, -was_failed, -was_cancelled);
END
$$;

-- Move open jobs, whose rows are locked, up to higher lanes. A leased one only notes it; one that waits goes on
-- waiting.
CREATE FUNCTION raise_priority(p_jobs bigint[], p_priorities smallint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  waiting later[];
  standing bigint[];
BEGIN
  WITH gone AS (DELETE FROM later l WHERE l.job = ANY (p_jobs) RETURNING l)
    SELECT array_agg(gone.l) INTO waiting FROM gone;
  standing := unqueue(p_jobs);
  UPDATE job j SET priority = u.priority FROM unnest(p_jobs, p_priorities) u (job, priority) WHERE j.id = u.job;
  INSERT INTO later (due, since, space, collection, key, job)
  SELECT w.due, w.since, w.space, w.collection, place(j.priority, j.crashes, j.queued_at), w.job
  FROM unnest(waiting) w JOIN job j ON j.id = w.job;
  PERFORM queue(standing);
END
$$;

-- Lock live records and their jobs, for arming.
CREATE FUNCTION hold_records(p_space int, p_records bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  PERFORM FROM record x WHERE x.rid = ANY (p_records) ORDER BY x.rid FOR NO KEY UPDATE;
  PERFORM FROM job j WHERE j.id = ANY (ARRAY(SELECT (u.rid << 12) | p_space FROM unnest(p_records) u (rid)))
    ORDER BY j.id FOR NO KEY UPDATE;
END
$$;

-- Change the jobs of live records that are as they were when the rules were asked about them [2]: neither the record
-- nor its job, known by the transactions that last wrote them, has changed since. `p_arms`: true arms the job; false
-- moves one that is on its way up to a higher lane; NULL only looks. Answer with the records that were unchanged, and
-- their jobs.
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
    PERFORM arm(p_collection, p_space, a.armed, a.hashes, a.priorities, p_forced, moment_of(p_now));
  END IF;
  IF a.raised IS NOT NULL THEN
    PERFORM raise_priority(a.raised, a.lanes);
  END IF;
  RETURN QUERY SELECT u.rid, j.id, j.serial FROM unnest(a.unchanged) u (rid)
    LEFT JOIN job j ON j.id = (u.rid << 12) | p_space;
END
$$;
