-- Take jobs out of a lease, whose row is locked; an empty lease ends.
CREATE FUNCTION shrink(p_token bigint, p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE lease l SET (jobs, arms) = (
    SELECT coalesce(array_agg(u.job), '{}'), coalesce(array_agg(u.arms), '{}')
    FROM unnest(l.jobs, l.arms) u (job, arms) WHERE u.job <> ALL (coalesce(p_jobs, '{}')))
  WHERE l.token = p_token;
  DELETE FROM lease l WHERE l.token = p_token AND l.jobs = '{}';
END
$$;

-- Note that a provider answered: it is no longer one that only refuses. At most once a second, since all workers write
-- it.
CREATE FUNCTION note_success(p_space int, p_now timestamptz) RETURNS void LANGUAGE sql AS $$
  UPDATE space SET success_at = p_now WHERE id = p_space AND success_at < p_now - interval '1 second'
$$;

-- Store the vectors of jobs that were completed under a lease, and keep the sums.
CREATE FUNCTION note_completed(
  l lease, p_jobs bigint[], p_collections int[], p_hashes bytea[], p_vectors vector[], p_truncated boolean[],
  p_now timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  rids bigint[];
  homes int[];
  c int;
  n int;
  found_now int := 0;
BEGIN
  IF p_vectors IS NOT NULL THEN
    rids := ARRAY(SELECT u.job >> 12 FROM unnest(p_jobs) u (job));
    EXECUTE format('SELECT %s_%s($1, $2, $3, $4, $5)', CASE WHEN l.fresh THEN 'add' ELSE 'store' END, l.space)
    USING rids, p_collections, p_hashes, p_truncated, p_vectors;
    PERFORM note_success(l.space, p_now);
  END IF;
  IF p_collections[1] = ALL (p_collections) THEN  -- the rule
    homes := p_collections[1:1];
  ELSE
    homes := ARRAY(SELECT DISTINCT unnest(p_collections));
  END IF;
  FOREACH c IN ARRAY homes LOOP
    n := cardinality(array_positions(p_collections, c));
    IF p_vectors IS NOT NULL THEN
      DELETE FROM missing m WHERE m.collection = c AND m.record = ANY (rids);
      GET DIAGNOSTICS found_now = ROW_COUNT;
      IF EXISTS (SELECT FROM attachment a WHERE a.collection = c AND a.target IS NOT NULL) THEN
        PERFORM copy_out(c, rids);
      END IF;
    END IF;
    INSERT INTO tally (collection, open, completed, missing) VALUES (c, -n, n, -found_now);
  END LOOP;
END
$$;

-- Write what becomes of jobs whose rows are locked; the rules have said it (`policy.jobs`). Their leases note in each
-- row that they have ended.
CREATE FUNCTION write_jobs(p_jobs transition[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  WITH written AS (
    UPDATE job j SET token = t.token, nonce = t.nonce, crashes = t.crashes, leased_arms = t.arms, status = t.status,
      started_at = coalesce(l.since, j.started_at), worker = coalesce(l.worker, j.worker), reason = t.reason,
      hash = coalesce(t.hash, j.hash), forced = j.forced AND t.status <> 2,
      completed_at = CASE WHEN t.status <> 0 THEN p_now END, failed_at = CASE WHEN t.status = 3 THEN p_now END,
      cancelled_at = CASE WHEN t.status = 4 THEN p_now END,
      attempts = j.attempts + t.failures, retrying = t.status = 0 AND j.attempts + t.failures > 0,
      first_at = CASE WHEN t.failures > 0 THEN coalesce(j.first_at, p_now) ELSE j.first_at END,
      last_at = CASE WHEN t.fault IS NOT NULL THEN p_now ELSE j.last_at END,
      error = CASE WHEN t.status <> 2 THEN coalesce(t.fault, j.error) END,
      refused_at = CASE WHEN t.refused THEN coalesce(j.refused_at, p_now)
        WHEN t.status <> 2 AND t.failures = 0 THEN j.refused_at END
    FROM unnest(p_jobs) t JOIN job o ON o.id = t.job LEFT JOIN lease l ON l.token = t.token AND l.nonce = t.nonce
    WHERE j.id = t.job RETURNING j.collection, o.status AS was, j.status)
  INSERT INTO tally (collection, open, completed, failed, cancelled)
  SELECT w.collection, sum((w.status = 0)::int - (w.was = 0)::int), sum((w.status = 2)::int - (w.was = 2)::int),
    sum((w.status = 3)::int - (w.was = 3)::int), sum((w.status = 4)::int - (w.was = 4)::int)
  FROM written w WHERE w.status <> w.was GROUP BY 1;
  DELETE FROM given_up g USING unnest(p_jobs) t JOIN job j ON j.id = t.job
    WHERE t.status = 2 AND g.collection = j.collection AND g.record = t.job >> 12;
  INSERT INTO given_up (collection, record, hash, reason)
    SELECT j.collection, j.id >> 12, j.hash, j.reason FROM unnest(p_jobs) t JOIN job j ON j.id = t.job
    WHERE t.status = 3 ON CONFLICT (collection, record) DO UPDATE SET hash = excluded.hash, reason = excluded.reason;
  PERFORM queue(ARRAY(SELECT t.job FROM unnest(p_jobs) t WHERE t.status = 0 AND t.after IS NULL));
  INSERT INTO later (due, since, space, collection, key, job)
    SELECT p_now + make_interval(secs => t.after), p_now, (j.id & 4095)::int, j.collection,
      place(j.priority, j.crashes, j.queued_at), j.id
    FROM unnest(p_jobs) t JOIN job j ON j.id = t.job WHERE t.status = 0 AND t.after IS NOT NULL
    ON CONFLICT (job) DO NOTHING;
END
$$;

-- Lock leases and jobs, and say which of these are as they were when the rules were asked about them: each row is known
-- by the transaction that last wrote it, and one that was taken back (`late`) must come out of the line or the waiting
-- room. What another transaction holds just now is busy; all others have changed.
CREATE FUNCTION hold_unchanged(p_jobs transition[], OUT held transition[], OUT busy bigint[])
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  ids bigint[] := ARRAY(SELECT t.job FROM unnest(p_jobs) t);
  locked bigint[];
  waiting bigint[];
BEGIN
  PERFORM FROM lease l WHERE l.token = ANY (ARRAY(SELECT t.token FROM unnest(p_jobs) t)) ORDER BY l.token FOR UPDATE;
  locked := ARRAY(SELECT j.id FROM job j WHERE j.id = ANY (ids) ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED);
  -- statements later than the one that locked
  held := ARRAY(SELECT t FROM unnest(p_jobs) t LEFT JOIN job j ON j.id = t.job
    LEFT JOIN lease l ON l.token = t.token AND l.nonce = t.nonce
    WHERE (j.id IS NULL OR j.id = ANY (locked)) AND j.xmin::text::bigint IS NOT DISTINCT FROM t.version
      AND (t.lease_version IS NULL OR l.xmin::text::bigint = t.lease_version));
  waiting := unqueue(ARRAY(SELECT t.job FROM unnest(held) t WHERE t.late));
  held := ARRAY(SELECT t FROM unnest(held) t WHERE NOT t.late OR t.job = ANY (waiting));
  busy := ARRAY(SELECT j.id FROM job j WHERE j.id = ANY (ids) AND j.id <> ALL (locked));
END
$$;

-- Record how attempts ended, or that leases were lost, as the rules have said of each job, with the vectors that were
-- paid for. Answer with the jobs that were written and those that are busy: of all others nothing was done, and the
-- rules must be asked again. With p_last the worker does not come back for what is busy: its lease is idle from now on.
CREATE FUNCTION write_transitions(
  p_transitions jsonb, p_paid jsonb, p_vectors vector[], p_last boolean, p_now timestamptz,
  OUT written bigint[], OUT busy bigint[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  moment timestamptz := coalesce(p_now, clock_timestamp());
  changes transition[] := ARRAY(SELECT t FROM jsonb_populate_recordset(NULL::transition, p_transitions) t);
  paid paid[] := ARRAY(
    SELECT ROW(u.job, u.token, u.record, u.erasure, u.hash, u.truncated, u.kept, p_vectors[u.n])::paid
    FROM ROWS FROM (jsonb_to_recordset(p_paid) AS (
      job bigint, token bigint, record text, erasure bigint, hash bytea, truncated boolean, kept boolean))
    WITH ORDINALITY u (job, token, record, erasure, hash, truncated, kept, n));
  h record;
  l record;
BEGIN
  PERFORM require_read_committed();
  SELECT * INTO h FROM hold_unchanged(changes);
  written := ARRAY(SELECT t.job FROM unnest(h.held) t WHERE t.status IS NOT NULL);
  busy := h.busy;
  PERFORM store_vectors(ARRAY(SELECT v FROM unnest(paid) v WHERE NOT v.kept AND v.job = ANY (written)));
  PERFORM keep_spare(v, moment) FROM unnest(paid) v
    WHERE v.embedding IS NOT NULL AND (v.kept OR v.job = ANY (busy));  -- NULL: it is in another database
  PERFORM note_success(z.space, moment) FROM (
    SELECT DISTINCT (v.job & 4095)::int AS space FROM unnest(paid) v WHERE v.job = ANY (written)) z;
  PERFORM write_jobs(ARRAY(SELECT t FROM unnest(h.held) t WHERE t.status IS NOT NULL), moment);
  FOR l IN SELECT e.token, array_agg(t.job) AS jobs FROM unnest(h.held) t
    JOIN lease e ON e.token = t.token AND e.nonce = t.nonce GROUP BY 1 ORDER BY 1
  LOOP
    PERFORM shrink(l.token, l.jobs);
  END LOOP;
  IF p_last THEN
    UPDATE lease e SET idle = true, until = least(e.until, moment) FROM unnest(changes) t
      WHERE e.token = t.token AND e.nonce = t.nonce;
  END IF;
END
$$;

-- Fold the changes of sums into one row per collection, if no other transaction is at it.
CREATE FUNCTION fold() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  IF pg_try_advisory_xact_lock(1701667442, 0) THEN
    WITH gone AS (DELETE FROM tally RETURNING *)
    INSERT INTO tally SELECT collection, sum(open), sum(completed), sum(failed), sum(cancelled), sum(records),
      sum(missing) FROM gone GROUP BY collection;
  END IF;
END
$$;

-- Complete a whole batch that is as it was when it was leased: the lease of just these jobs, ascending, and their texts
-- are those that were embedded, so that the rules complete each of them [5]. NULL, and nothing is changed, if it is
-- not: another transaction has edited or cancelled one of its jobs, or holds it just now, or the token is another
-- lease's by now. Answer with how many vectors were stored, and how many seconds the jobs were in the queue.
CREATE FUNCTION complete_whole(
  p_token bigint, p_nonce bigint, p_jobs bigint[], p_hashes bytea[], p_vectors vector[], p_truncated boolean[],
  p_now timestamptz, OUT stored int, OUT seconds float8
)
LANGUAGE plpgsql SET lock_timeout = '2ms' SET enable_bitmapscan = off AS $$
DECLARE
  l lease;
  total int := cardinality(p_jobs);
  done_jobs bigint[];
  done_arms int[];
  homes int[];
  hashes bytea[];
BEGIN
  DELETE FROM lease WHERE token = p_token AND nonce = p_nonce AND jobs = p_jobs RETURNING * INTO l;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  WITH done AS (
    UPDATE job SET status = 2, completed_at = p_now, started_at = l.since, worker = l.worker, token = l.token,
      nonce = l.nonce, crashes = 0, forced = false, retrying = false, reason = NULL, error = NULL, refused_at = NULL
    WHERE id = ANY (l.jobs) AND status = 0 RETURNING id, arms, collection, hash)
  SELECT array_agg(id), array_agg(arms), array_agg(collection), array_agg(hash)
  INTO done_jobs, done_arms, homes, hashes FROM done;
  IF done_jobs IS DISTINCT FROM l.jobs OR done_arms IS DISTINCT FROM l.arms OR hashes IS DISTINCT FROM p_hashes THEN
    RAISE SQLSTATE 'EQ002';
  END IF;
  PERFORM set_config('lock_timeout', '0', true);  -- it was for the jobs; room in a table is worth a wait
  IF p_vectors IS NULL AND homes[1] = ALL (homes) THEN
    INSERT INTO tally (collection, open, completed) VALUES (homes[1], -total, total);
    stored := 0;
  ELSE
    PERFORM note_completed(l, l.jobs, homes, p_hashes, p_vectors, p_truncated, p_now);
    stored := coalesce(num_nonnulls(VARIADIC p_vectors), 0);
  END IF;
  seconds := date_part('epoch', p_now - l.queued);
EXCEPTION WHEN lock_not_available OR unique_violation OR SQLSTATE 'EQ002' THEN
  stored := NULL;
END
$$;

-- Complete one whole batch and lease the next, if a worker asks for one: one call, one commit. If the batch is not as
-- it was, nothing happens.
CREATE FUNCTION complete_and_lease(
  p_token bigint, p_nonce bigint, p_jobs bigint[], p_hashes bytea[], p_vectors vector[], p_truncated boolean[],
  p_worker text, p_asked text[], p_limit int, p_span interval, p_prefetch boolean, p_lowest boolean, p_solo boolean,
  p_mark_keys bigint[], p_mark_jobs bigint[], p_next_nonce bigint, p_fold boolean, p_now timestamptz,
  OUT stored int, OUT seconds float8, OUT n leased
)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  SELECT c.stored, c.seconds INTO stored, seconds
  FROM complete_whole(p_token, p_nonce, p_jobs, p_hashes, p_vectors, p_truncated, coalesce(p_now, clock_timestamp())) c;
  IF stored IS NOT NULL AND p_fold THEN
    PERFORM fold();
  END IF;
  IF stored IS NULL OR p_worker IS NULL THEN
    RETURN;
  END IF;
  n := lease(p_worker, p_asked, p_limit, p_span, p_prefetch, p_lowest, p_solo, p_mark_keys, p_mark_jobs, p_next_nonce,
    p_now);
END
$$;
