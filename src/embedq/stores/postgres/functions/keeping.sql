-- Lock live records and their jobs, for arming.
CREATE FUNCTION hold_records(p_space int, p_records bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  PERFORM FROM record x WHERE x.rid = ANY (p_records) ORDER BY x.rid FOR NO KEY UPDATE;
  PERFORM FROM job j WHERE j.id = ANY (ARRAY(SELECT (u.rid << 12) | p_space FROM unnest(p_records) u (rid)))
    ORDER BY j.id FOR NO KEY UPDATE;
END
$$;

-- Arm jobs of live records by hand: forced, or where the current text has neither vector nor job; what is on its way
-- keeps the higher priority. An unknown id, or one that is not the tenant's, is the problem, and then nothing is written.
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
  SELECT array_agg(u.place), array_agg(j.id), array_agg(j.serial), array_agg((m.record IS NULL)::int)
  INTO answer.places, answer.jobs, answer.serials, answer.statuses
  FROM unnest(p_ids) WITH ORDINALITY u (id, place) JOIN record x ON x.collection = p_collection AND x.id = u.id
  LEFT JOIN job j ON j.id = (x.rid << 12) | p_space
  LEFT JOIN missing m ON m.collection = p_collection AND m.record = x.rid;
  RETURN answer;
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

-- Fix a space's dimensions by its first good answer, and make the table of its vectors; answer with what is fixed.
CREATE FUNCTION learn(p_space int, p_dimensions int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  fixed int;
  verb text;
  where_there text;
  -- the extension may live in any schema, and ours are the only ones that are looked into
  kind text := (SELECT format('%I.vector', n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector');
BEGIN
  UPDATE space SET dimensions = coalesce(dimensions, p_dimensions) WHERE id = p_space RETURNING dimensions INTO fixed;
  IF fixed IS NOT NULL AND to_regclass(format('embedq.vector_%s', p_space)) IS NULL THEN
    EXECUTE format('CREATE TABLE embedq.vector_%s (record bigint PRIMARY KEY, collection int NOT NULL,
      truncated boolean NOT NULL, hash bytea NOT NULL, embedding %s(%s) NOT NULL)', p_space, kind, fixed);
    IF fixed <= 1900 THEN  -- it fits on a page: a scan need not fetch it from elsewhere
      EXECUTE format('ALTER TABLE embedq.vector_%s ALTER embedding SET STORAGE plain', p_space);
    END IF;
    EXECUTE format('CREATE INDEX ON embedq.vector_%s (substr(hash, 1, 8))', p_space);  -- small, to find what can be reused
    EXECUTE format('CREATE INDEX ON embedq.vector_%s (record) WHERE truncated', p_space);
    -- how a settle stores vectors: functions of this table's own, so that their plans are kept. Where none of the records
    -- can have one yet, adding them takes two thirds of the time.
    FOR verb, where_there IN VALUES ('add', ''), ('store', 'ON CONFLICT (record) DO UPDATE
        SET hash = excluded.hash, truncated = excluded.truncated, embedding = excluded.embedding') LOOP
      EXECUTE format('CREATE FUNCTION embedq.%1$s_%2$s(bigint[], int[], bytea[], boolean[], %4$s[]) RETURNS void
        LANGUAGE plpgsql AS $body$
        BEGIN
          INSERT INTO embedq.vector_%2$s (record, collection, hash, truncated, embedding)
          SELECT u.rid, u.collection, u.hash, coalesce(u.truncated, false), u.embedding
          FROM unnest($1, $2, $3, $4, $5) u (rid, collection, hash, truncated, embedding) WHERE u.embedding IS NOT NULL
          %3$s;
        END $body$', verb, p_space, where_there, kind);
    END LOOP;
    UPDATE control SET epoch = epoch + 1;
    PERFORM issue_rights();
  END IF;
  RETURN fixed;
END
$$;

-- Look up vectors that were paid for already, by the texts they stand for.
CREATE FUNCTION known(p_space int, p_hashes bytea[]) RETURNS TABLE (hash bytea, embedding vector)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  IF to_regclass(format('embedq.vector_%s', p_space)) IS NOT NULL THEN
    RETURN QUERY EXECUTE format('SELECT u.hash, w.embedding FROM unnest($1) u (hash) CROSS JOIN LATERAL (
      SELECT v.embedding FROM vector_%s v WHERE substr(v.hash, 1, 8) = substr(u.hash, 1, 8) AND v.hash = u.hash
      LIMIT 1) w', p_space) USING p_hashes;
  END IF;
  RETURN QUERY SELECT s.hash, s.embedding FROM spare s WHERE s.space = p_space AND s.hash = ANY (p_hashes);
END
$$;

-- Take requests and tokens from the fleet's budget: zero, or how long to wait. A bound that is null does not bind. What
-- must leave the window first is found as `policy.budgets.blocking` finds it. A refusal is a hold until there is room:
-- nobody leases jobs that could not be embedded now.
CREATE FUNCTION take_budget(p_space int, p_requests int, p_tokens bigint, p_interval interval,
  p_want int, p_want_tokens bigint, p_now timestamptz) RETURNS interval
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  moment timestamptz;
  s space;
  blocking timestamptz;
  free timestamptz;
BEGIN
  PERFORM require_read_committed();
  IF p_interval IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(1701667443, p_space);
  END IF;
  SELECT * INTO s FROM space WHERE id = p_space;
  moment := coalesce(p_now, clock_timestamp());
  IF s.held_until > moment AND s.held_since <= moment + interval '1 second' THEN
    RETURN s.held_until - moment;
  ELSIF p_interval IS NULL THEN
    RETURN interval '0';
  END IF;
  DELETE FROM request r WHERE r.space = p_space AND (r.at <= moment - p_interval OR r.at > moment + interval '1 second');
  blocking := blocking_request(p_space, p_requests - p_want, p_tokens - p_want_tokens);
  IF blocking IS NOT NULL THEN
    free := greatest(moment + interval '1 millisecond', blocking + p_interval);
    UPDATE space SET held_since = moment, held_until = CASE WHEN held_since > moment + interval '1 second'
      THEN free ELSE greatest(held_until, free) END WHERE id = p_space;
    RETURN free - moment;
  END IF;
  INSERT INTO request (space, at, requests, tokens) VALUES (p_space, moment, p_want, p_want_tokens);
  RETURN interval '0';
END
$$;

-- Find the newest of the requests that are more than this room holds; mostly the sums tell that there is none.
CREATE FUNCTION blocking_request(p_space int, p_requests int, p_tokens bigint) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  is_full boolean;
  found_at timestamptz;
BEGIN
  SELECT coalesce(sum(r.requests) > p_requests, false) OR coalesce(sum(r.tokens) > p_tokens, false) INTO is_full
    FROM request r WHERE r.space = p_space;
  IF is_full THEN
    SELECT t.at INTO found_at FROM (
      SELECT r.at, sum(r.requests) OVER w AS requests, sum(r.tokens) OVER w AS tokens FROM request r
      WHERE r.space = p_space WINDOW w AS (ORDER BY r.at DESC ROWS UNBOUNDED PRECEDING)) t
    WHERE t.requests > p_requests OR t.tokens > p_tokens ORDER BY t.at DESC LIMIT 1;
  END IF;
  RETURN found_at;
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

-- Count the vectors of a collection that stand for the beginning of a text only, and are current.
CREATE FUNCTION truncated(p_collection int, p_space int) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  total bigint := 0;
BEGIN
  IF to_regclass(format('embedq.vector_%s', p_space)) IS NOT NULL THEN
    EXECUTE format('SELECT count(*) FROM vector_%s v JOIN record x ON x.rid = v.record AND x.hash = v.hash
      WHERE v.truncated AND v.collection = $1', p_space) INTO total USING p_collection;
  END IF;
  RETURN total;
END
$$;
