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

-- Keep a vector that was paid for and fits no record now, unless its text was removed for good since the lease, or perhaps
-- was, since nothing is known of that lease (its token may have been given twice); and unless the lease is none of this
-- installation's. The caller holds the job's row or the record's, so nobody is removing it just now.
CREATE FUNCTION keep_spare(
  p_job bigint, p_token bigint, p_known boolean, p_hash bytea, p_vector vector, p_now timestamptz
) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO spare (space, hash, paid_at, embedding)
  SELECT (p_job & 4095)::int, p_hash, p_now, p_vector FROM record x, control c, lease_token t
  WHERE x.rid = p_job >> 12 AND (x.erased IS NULL OR (p_known AND x.erased < p_token))
    AND p_token BETWEEN c.first_token AND t.last_value
  ON CONFLICT DO NOTHING
$$;

-- Note that a provider answered: it is no longer one that only refuses. At most once a second, since all workers write it.
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

-- Complete jobs, whose rows are locked, that are open and were not armed since their lease: their records are live with
-- the text that was leased, since an edit arms and a deletion cancels, and both need the job's row.
CREATE FUNCTION complete(
  l lease, p_rows tid[], p_jobs bigint[], p_collections int[], p_hashes bytea[], p_vectors vector[],
  p_truncated boolean[], p_now timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE job SET status = 2, completed_at = p_now, started_at = l.since, worker = l.worker, token = l.token, nonce = l.nonce,
    crashes = 0, forced = false, retrying = false, reason = NULL, error = NULL, refused_at = NULL
  WHERE ctid = ANY (p_rows);  -- safe: nobody moves a row that we have locked
  l.fresh := false;  -- whoever comes here was not as expected
  PERFORM note_completed(l, p_jobs, p_collections, p_hashes, p_vectors, p_truncated, p_now);
END
$$;

-- Make a job, whose row is locked, pending and due now, uncharged.
CREATE FUNCTION reopen(p_job bigint) RETURNS smallint
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE job SET status = 0, completed_at = NULL, failed_at = NULL, reason = NULL WHERE id = p_job AND status <> 0;
  PERFORM queue(ARRAY[p_job]);
  RETURN 0;
END
$$;

-- Let a job, whose row is locked, wait.
CREATE FUNCTION postpone(p_job bigint, p_after interval, p_now timestamptz) RETURNS smallint
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO later (due, since, space, collection, key, job)
  SELECT p_now + p_after, p_now, (j.id & 4095)::int, j.collection, place(j.priority, j.crashes, j.queued_at), j.id
  FROM job j WHERE j.id = p_job ON CONFLICT (job) DO NOTHING;
  RETURN 0;
END
$$;

-- Make a job, whose row is locked, a dead letter; its record remembers which text was given up on, and why.
CREATE FUNCTION give_up(p_job bigint, p_hash bytea, p_reason text, p_now timestamptz) RETURNS smallint
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE job SET status = 3, completed_at = p_now, failed_at = p_now, reason = p_reason, hash = p_hash, retrying = false
  WHERE id = p_job;
  INSERT INTO given_up (collection, record, hash, reason)
  SELECT j.collection, j.id >> 12, p_hash, p_reason FROM job j WHERE j.id = p_job
  ON CONFLICT (collection, record) DO UPDATE SET hash = excluded.hash, reason = excluded.reason;
  RETURN 3;
END
$$;

-- End a job, whose row is locked, because its record is gone.
CREATE FUNCTION drop_job(p_job bigint, p_hash bytea, p_now timestamptz) RETURNS smallint
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE job SET status = 4, completed_at = p_now, cancelled_at = p_now, failed_at = NULL, reason = 'record_deleted',
    hash = p_hash, retrying = false WHERE id = p_job;
  RETURN 4;
END
$$;

-- An attempt that brought a vector, or found that the stored one is current.
CREATE FUNCTION judge_done(
  j job, p_token bigint, p_live boolean, p_text bytea, p_armed boolean, p_hash bytea, p_vector vector,
  p_truncated boolean, p_now timestamptz
) RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
  home int := (j.id & 4095)::int;
  stored_now int := 0;
BEGIN
  IF p_vector IS NULL THEN
    SELECT count(*) INTO stored_now FROM stored(home, ARRAY[j.id >> 12]) v WHERE p_live AND v.hash = p_text;
  ELSE
    PERFORM note_success(home, p_now);
    -- the test stands in the statement that writes
    EXECUTE format('INSERT INTO vector_%s (record, collection, hash, truncated, embedding)
      SELECT x.rid, x.collection, x.hash, $1, $2 FROM record x WHERE x.rid = $3 AND x.hash = $4 AND x.valid_to IS NULL
      ON CONFLICT (record) DO UPDATE
      SET hash = excluded.hash, truncated = excluded.truncated, embedding = excluded.embedding', home)
    USING coalesce(p_truncated, false), p_vector, j.id >> 12, p_hash;
    GET DIAGNOSTICS stored_now = ROW_COUNT;
    IF stored_now = 0 THEN
      PERFORM keep_spare(j.id, p_token, true, p_hash, p_vector, p_now);
    ELSE
      PERFORM note_missing(j.collection, home, ARRAY[j.id >> 12]);
      INSERT INTO unplaced (attachment, record)  -- gather copies it: this one is one of many
        SELECT a.id, j.id >> 12 FROM attachment a WHERE a.collection = j.collection AND a.target IS NOT NULL;
    END IF;
  END IF;
  IF NOT p_live AND NOT p_armed THEN
    RETURN drop_job(j.id, p_hash, p_now);
  ELSIF p_armed OR NOT p_live OR p_text <> p_hash OR stored_now = 0 THEN
    RETURN reopen(j.id);
  END IF;
  UPDATE job SET status = 2, hash = p_hash, completed_at = p_now, failed_at = NULL, forced = false, retrying = false,
    reason = NULL, error = NULL, refused_at = NULL WHERE id = j.id;
  DELETE FROM given_up g WHERE g.collection = j.collection AND g.record = j.id >> 12;
  RETURN 2;
END
$$;

-- An attempt that brought none, of a job under its lease whose record is as it was.
CREATE FUNCTION judge_failure(j job, p_outcome jsonb, p_hash bytea, p_now timestamptz) RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
  kind text := p_outcome ->> 'kind';
  after interval := make_interval(secs => (p_outcome ->> 'after')::float8);
  fault text := p_outcome ->> 'fault';
BEGIN
  IF kind IN ('retry', 'failed') THEN
    UPDATE job SET attempts = attempts + 1, first_at = coalesce(first_at, p_now), last_at = p_now, error = fault,
      refused_at = NULL, retrying = true WHERE id = j.id;
    IF kind = 'failed' THEN
      RETURN give_up(j.id, p_hash, p_outcome ->> 'reason', p_now);
    END IF;
    RETURN postpone(j.id, after, p_now);
  END IF;
  IF fault IS NOT NULL THEN  -- the provider itself said "not now": for an hour without one success it is a dead letter
    UPDATE job SET refused_at = coalesce(refused_at, p_now), last_at = p_now, error = fault WHERE id = j.id;
    IF p_now >= interval '1 hour' + greatest(j.refused_at, (
      SELECT s.success_at FROM space s WHERE s.id = (j.id & 4095)::int)) AND j.refused_at IS NOT NULL THEN
      RETURN give_up(j.id, p_hash, 'quota', p_now);
    END IF;
  END IF;
  IF after > interval '0' THEN
    RETURN postpone(j.id, after, p_now);
  END IF;
  RETURN reopen(j.id);
END
$$;

-- Settle one job by the letter of RULES 5: 'ours', 'stored' if its vector was, 'buried' if it became a dead letter by the
-- clock, 'busy' while somebody else holds its row, or 'foreign' if it is not the lease's business any more. `l` is NULL if
-- the lease is gone.
CREATE FUNCTION judge(
  l lease, p_token bigint, p_nonce bigint, p_job bigint, p_hash bytea, p_vector vector, p_truncated boolean,
  p_outcome jsonb, p_now timestamptz
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  kind text := coalesce(p_outcome ->> 'kind', 'done');
  j job;
  x record;
  leased boolean;
  ours boolean;
  armed boolean;
  ended smallint;
BEGIN
  SELECT * INTO j FROM job WHERE id = p_job FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND AND EXISTS (SELECT FROM job WHERE id = p_job) THEN
    RETURN 'busy';
  END IF;
  leased := coalesce(j.status = 0 AND l.arms[array_position(l.jobs, p_job)] >= j.fence, false);
  ours := leased;
  IF NOT leased AND kind = 'done' AND j.token = p_token AND j.nonce = p_nonce THEN  -- late: taken if nobody leased it since
    ours := (j.status = 0 AND unqueue(ARRAY[p_job]) <> '{}') OR (j.status = 3 AND j.reason = 'crash_loop');
  END IF;
  IF ours IS NOT TRUE THEN
    IF p_vector IS NOT NULL AND j.id IS NULL THEN  -- nothing of the job is locked: the record must be
      PERFORM FROM record r WHERE r.rid = p_job >> 12 FOR KEY SHARE SKIP LOCKED;
    END IF;
    IF p_vector IS NOT NULL AND (FOUND OR j.id IS NOT NULL) THEN
      PERFORM keep_spare(p_job, p_token, coalesce(l.token IS NOT NULL OR (j.token, j.nonce) = (p_token, p_nonce), false),
        p_hash, p_vector, p_now);
    END IF;
    RETURN 'foreign';
  END IF;
  SELECT r.valid_to IS NULL AS live, r.hash INTO x FROM record r WHERE r.rid = p_job >> 12;
  IF leased THEN
    j.leased_arms := l.arms[array_position(l.jobs, p_job)];
  END IF;
  armed := j.arms <> j.leased_arms;
  UPDATE job SET token = p_token, nonce = p_nonce, crashes = 0, leased_arms = j.leased_arms,
    started_at = coalesce(l.since, started_at), worker = coalesce(l.worker, worker) WHERE id = p_job;
  IF kind = 'done' THEN
    ended := judge_done(j, p_token, coalesce(x.live, false), x.hash, armed, p_hash, p_vector, p_truncated, p_now);
  ELSIF kind = 'skipped' AND NOT armed THEN
    ended := drop_job(p_job, p_hash, p_now);
  ELSIF armed OR x.live IS NOT TRUE OR x.hash <> p_hash OR kind = 'skipped' THEN
    ended := reopen(p_job);
  ELSE
    ended := judge_failure(j, p_outcome, p_hash, p_now);
  END IF;
  IF ended <> j.status THEN
    INSERT INTO tally (collection, open, completed, failed, cancelled) VALUES (j.collection,
      (ended = 0)::int - (j.status = 0)::int, (ended = 2)::int - (j.status = 2)::int,
      (ended = 3)::int - (j.status = 3)::int, (ended = 4)::int - (j.status = 4)::int);
  END IF;
  RETURN CASE WHEN kind = 'released' AND ended = 3 THEN 'buried'
    WHEN kind = 'done' AND p_vector IS NOT NULL AND x.live AND x.hash = p_hash THEN 'stored' ELSE 'ours' END;
END
$$;

-- Count vectors that were stored after such a time in the queue; the seconds are the mean of all.
CREATE FUNCTION count_stored(s settled, p_count int, p_waited interval) RETURNS settled
LANGUAGE plpgsql AS $$
BEGIN
  IF p_count > 0 THEN
    s.seconds := (coalesce(s.seconds, 0) * s.stored + date_part('epoch', p_waited) * p_count) / (s.stored + p_count);
    s.stored := s.stored + p_count;
  END IF;
  RETURN s;
END
$$;

-- Record how attempts ended: batch by batch, those that are done and as they were by set statements, the others one by
-- one. Jobs come sorted by token and key; p_ends says where each lease's jobs end; p_outcomes is NULL, or NULL where a job
-- is done. What somebody else holds just now is left in its lease and named as busy; with p_last nobody comes back for it,
-- and its lease is idle from now on.
CREATE FUNCTION settle(
  p_tokens bigint[], p_nonces bigint[], p_ends int[], p_jobs bigint[], p_hashes bytea[], p_vectors vector[],
  p_truncated boolean[], p_outcomes jsonb[], p_last boolean, p_now timestamptz
) RETURNS settled
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  answer settled;
  moment timestamptz := coalesce(p_now, clock_timestamp());
  l lease;
  a int := 1;  -- a batch goes from a to b
  b int;
  open_rows tid[];
  open_jobs bigint[];
  open_arms int[];
  open_hashes bytea[];
  homes int[];
  f record;
  ended bigint[];
  departed bigint[];
  verdict text;
BEGIN
  PERFORM require_read_committed();
  answer.jobs := '{}';
  answer.busy := '{}';
  answer.buried := '{}';
  answer.wakes := false;
  answer.stored := 0;
  FOR g IN 1..cardinality(p_tokens) LOOP
    b := p_ends[g];
    ended := '{}';
    departed := '{}';
    SELECT NULL::bigint[] AS jobs INTO f;
    SELECT * INTO l FROM lease WHERE token = p_tokens[g] AND nonce = p_nonces[g] FOR UPDATE;
    IF FOUND THEN
      SELECT array_agg(z.ctid), array_agg(z.id), array_agg(z.arms), array_agg(z.hash), array_agg(z.collection)
      INTO open_rows, open_jobs, open_arms, open_hashes, homes FROM (
        SELECT ctid, id, arms, hash, collection FROM job WHERE id = ANY (p_jobs[a:b]) AND status = 0
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) z;
      IF p_outcomes IS NULL AND open_jobs = l.jobs AND open_arms = l.arms AND open_hashes = p_hashes[a:b]
        AND open_jobs = p_jobs[a:b] THEN
        PERFORM complete(l, open_rows, open_jobs, homes, open_hashes, p_vectors[a:b], p_truncated[a:b], moment);
        DELETE FROM lease WHERE token = l.token;
        answer.jobs := answer.jobs || open_jobs;
        answer := count_stored(answer, num_nonnulls(VARIADIC p_vectors[a:b]), moment - l.queued);
        a := b + 1;
        CONTINUE;
      END IF;
      SELECT array_agg(o.place) AS places, array_agg(u.job) AS jobs, array_agg(o.home) AS homes, array_agg(u.hash) AS hashes,
        array_agg(u.embedding) AS vectors, array_agg(u.truncated) AS truncated INTO f
      FROM unnest(open_rows, open_jobs, open_arms, open_hashes, homes) o (place, job, arms, hash, home)
      JOIN unnest(l.jobs, l.arms) h (job, arms) ON h.job = o.job AND h.arms = o.arms
      JOIN unnest(p_jobs[a:b], p_hashes[a:b], p_vectors[a:b], p_truncated[a:b], p_outcomes[a:b])
        u (job, hash, embedding, truncated, outcome) ON u.job = o.job AND u.hash = o.hash AND u.outcome IS NULL;
      IF f.jobs IS NOT NULL THEN
        PERFORM complete(l, f.places, f.jobs, f.homes, f.hashes, CASE WHEN p_vectors IS NOT NULL THEN f.vectors END,
          f.truncated, moment);
        ended := f.jobs;
        answer := count_stored(answer, num_nonnulls(VARIADIC f.vectors), moment - l.queued);
      END IF;
    END IF;
    FOR i IN a..b LOOP
      CONTINUE WHEN p_jobs[i] = ANY (f.jobs);
      verdict := judge(l, p_tokens[g], p_nonces[g], p_jobs[i], p_hashes[i], p_vectors[i], p_truncated[i], p_outcomes[i],
        moment);
      IF verdict IN ('ours', 'buried', 'stored') THEN
        ended := ended || p_jobs[i];
        IF verdict = 'stored' THEN
          answer := count_stored(answer, 1, moment - (SELECT k.queued_at FROM job k WHERE k.id = p_jobs[i]));
        END IF;
        IF p_jobs[i] = ANY (l.jobs) THEN
          l.jobs[array_position(l.jobs, p_jobs[i])] := NULL;  -- a second word on it comes after its lease
        END IF;
        answer.wakes := true;
        IF verdict = 'buried' THEN
          answer.buried := answer.buried || p_jobs[i];
        END IF;
      ELSIF verdict = 'busy' THEN
        answer.busy := answer.busy || p_jobs[i];
      ELSE
        departed := departed || p_jobs[i];
      END IF;
    END LOOP;
    IF l.token IS NOT NULL THEN
      PERFORM shrink(l.token, ended || departed);
      UPDATE lease SET idle = true, until = least(until, moment) WHERE token = l.token AND p_last;
    END IF;
    answer.jobs := answer.jobs || ended;
    a := b + 1;
  END LOOP;
  RETURN answer;
END
$$;

-- Fold the changes of sums into one row per collection, if nobody else is at it.
CREATE FUNCTION fold() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  IF pg_try_advisory_xact_lock(1701667442, 0) THEN
    WITH gone AS (DELETE FROM tally RETURNING *)
    INSERT INTO tally SELECT collection, sum(open), sum(completed), sum(failed), sum(cancelled), sum(records), sum(missing)
    FROM gone GROUP BY collection;
  END IF;
END
$$;

-- Complete a whole batch that is as it was when it was leased: the lease of just these jobs, ascending, and their texts are
-- those that were embedded. NULL, and nothing is changed, if it is not: somebody has edited or cancelled one of its jobs, or
-- holds it just now, or the token is another lease's by now.
CREATE FUNCTION complete_whole(
  p_token bigint, p_nonce bigint, p_jobs bigint[], p_hashes bytea[], p_vectors vector[], p_truncated boolean[],
  p_now timestamptz, OUT s settled
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
  IF (l.jobs[total] >> 12) - (l.jobs[1] >> 12) = total - 1 THEN  -- a run, as in `is_run`
    WITH done AS (
      UPDATE job SET status = 2, completed_at = p_now, started_at = l.since, worker = l.worker, token = l.token,
        nonce = l.nonce, crashes = 0, forced = false, retrying = false, reason = NULL, error = NULL, refused_at = NULL
      WHERE id BETWEEN l.jobs[1] AND l.jobs[total] AND id & 4095 = l.space AND status = 0
      RETURNING id, arms, collection, hash)
    SELECT array_agg(id), array_agg(arms), array_agg(collection), array_agg(hash)
    INTO done_jobs, done_arms, homes, hashes FROM done;
  ELSE
    WITH done AS (
      UPDATE job SET status = 2, completed_at = p_now, started_at = l.since, worker = l.worker, token = l.token,
        nonce = l.nonce, crashes = 0, forced = false, retrying = false, reason = NULL, error = NULL, refused_at = NULL
      WHERE id = ANY (l.jobs) AND status = 0 RETURNING id, arms, collection, hash)
    SELECT array_agg(id), array_agg(arms), array_agg(collection), array_agg(hash)
    INTO done_jobs, done_arms, homes, hashes FROM done;
  END IF;
  IF done_jobs IS DISTINCT FROM l.jobs OR done_arms IS DISTINCT FROM l.arms OR hashes IS DISTINCT FROM p_hashes THEN
    RAISE SQLSTATE 'EQ002';
  END IF;
  PERFORM set_config('lock_timeout', '0', true);  -- it was for the jobs: whoever makes room in a table is worth the wait
  IF p_vectors IS NULL AND homes[1] = ALL (homes) THEN
    INSERT INTO tally (collection, open, completed) VALUES (homes[1], -total, total);
    s.stored := 0;
  ELSE
    PERFORM note_completed(l, l.jobs, homes, p_hashes, p_vectors, p_truncated, p_now);
    s.stored := coalesce(num_nonnulls(VARIADIC p_vectors), 0);
  END IF;
  s.jobs := '{}';
  s.seconds := date_part('epoch', p_now - l.queued);
EXCEPTION WHEN lock_not_available OR unique_violation OR SQLSTATE 'EQ002' THEN
  s := NULL;
END
$$;

-- Complete one whole batch and lease the next: one call, one commit. If the batch is not as it was, nothing happens.
CREATE FUNCTION complete_and_lease(
  p_token bigint, p_nonce bigint, p_jobs bigint[], p_hashes bytea[], p_vectors vector[], p_truncated boolean[],
  p_worker text, p_asked text[], p_limit int, p_span interval, p_prefetch boolean, p_lowest boolean, p_solo boolean,
  p_mark_keys bigint[], p_mark_jobs bigint[], p_next_nonce bigint, p_fold boolean, p_now timestamptz,
  OUT s settled, OUT n leased
)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  s := complete_whole(p_token, p_nonce, p_jobs, p_hashes, p_vectors, p_truncated, coalesce(p_now, clock_timestamp()));
  IF (s).jobs IS NULL THEN
    RETURN;
  END IF;
  IF p_fold THEN
    PERFORM fold();
  END IF;
  n := lease(p_worker, p_asked, p_limit, p_span, p_prefetch, p_lowest, p_solo, p_mark_keys, p_mark_jobs, p_next_nonce,
    p_now);
END
$$;

-- Settle attempts of any kind and lease the next batch: one call, one commit.
CREATE FUNCTION settle_and_lease(
  p_tokens bigint[], p_nonces bigint[], p_ends int[], p_jobs bigint[], p_hashes bytea[], p_vectors vector[],
  p_truncated boolean[], p_outcomes jsonb[], p_last boolean,
  p_worker text, p_asked text[], p_limit int, p_span interval, p_prefetch boolean, p_lowest boolean, p_solo boolean,
  p_mark_keys bigint[], p_mark_jobs bigint[], p_nonce bigint, p_fold boolean, p_now timestamptz,
  OUT s settled, OUT n leased
)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  s := settle(p_tokens, p_nonces, p_ends, p_jobs, p_hashes, p_vectors, p_truncated, p_outcomes, p_last, p_now);
  IF p_fold THEN
    PERFORM fold();
  END IF;
  n := lease(p_worker, p_asked, p_limit, p_span, p_prefetch, p_lowest, p_solo, p_mark_keys, p_mark_jobs, p_nonce,
    p_now);
END
$$;
