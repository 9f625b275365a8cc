-- Locks, everywhere: records before jobs before leases, each in the order of its key. Whoever changes a record's text or
-- life holds its job's row too, so a settle that holds the job may trust what it reads of the record.

-- Refuse to act on a snapshot that is older than the locks: each statement must see what was committed before it.
CREATE FUNCTION require_read_committed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'EQ003', MESSAGE = 'embedq needs transactions that are read committed';
  END IF;
END
$$;

-- Say where a job stands in its line: its lane, then its age. Jobs that took workers down stand behind all the others [8]
-- (`policy.jobs.SOLO_CRASHES`). Read when it is made, not when it is called: no search path has a say in it.
CREATE FUNCTION place(priority smallint, crashes smallint, queued_at timestamptz) RETURNS bigint LANGUAGE sql STABLE
RETURN (((3 - priority) + CASE WHEN crashes >= 2 THEN 4 ELSE 0 END)::bigint << 48)
  + floor(date_part('epoch', queued_at) * 1000)::bigint;

-- Say what a lease must know of a job: 1 it is forced, 2 its record may have a vector, 4 it was tried or renumbered, and
-- its row has to be read.
CREATE FUNCTION kind_of(j job) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
  SELECT (2 + CASE WHEN (j).forced THEN 1 ELSE 0 END
    + CASE WHEN (j).serial <> (j).id >> 12 OR (j).attempts > 0 OR (j).crashes > 0 THEN 4 ELSE 0 END)::smallint
$$;

-- Look up which texts the stored vectors of some records stand for.
CREATE FUNCTION stored(p_space int, p_records bigint[]) RETURNS TABLE (record bigint, hash bytea)
LANGUAGE plpgsql STABLE ROWS 100 SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  IF to_regclass(format('embedq.vector_%s', p_space)) IS NOT NULL THEN
    RETURN QUERY EXECUTE format('SELECT v.record, v.hash FROM vector_%s v WHERE v.record = ANY ($1)', p_space)
      USING p_records;
  END IF;
END
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

-- Arm the jobs of records: the text now, no failures, armed since every lease there is. The caller holds the records and
-- those of their jobs that exist. A job that is leased keeps its lease: it is queued when that ends.
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

-- Keep the list of records without a current vector right, for these records; answer with how much longer it is.
CREATE FUNCTION note_missing(p_collection int, p_space int, p_records bigint[]) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  lacking bigint[];
  covered bigint[];
  added int;
  removed int;
BEGIN
  SELECT array_agg(x.rid) FILTER (WHERE x.valid_to IS NULL AND v.hash IS DISTINCT FROM x.hash),
    array_agg(x.rid) FILTER (WHERE x.valid_to IS NOT NULL OR v.hash = x.hash)
  INTO lacking, covered
  FROM record x LEFT JOIN stored(p_space, p_records) v ON v.record = x.rid WHERE x.rid = ANY (p_records);
  DELETE FROM missing m WHERE m.collection = p_collection AND m.record = ANY (covered);
  GET DIAGNOSTICS removed = ROW_COUNT;
  INSERT INTO missing SELECT p_collection, u.record FROM unnest(lacking) u (record) ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS added = ROW_COUNT;
  IF added <> removed THEN
    INSERT INTO tally (collection, missing) VALUES (p_collection, added - removed);
  END IF;
  RETURN added + removed;
END
$$;

-- Move open jobs, whose rows are locked, up to higher lanes. A leased one only notes it; one that waits goes on waiting.
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
