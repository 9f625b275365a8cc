-- Name a space, as every database does. A number may be another space's after a schema was made from scratch or a
-- backup restored, so no process keeps one.
CREATE FUNCTION name_of(s space) RETURNS text LANGUAGE sql IMMUTABLE
RETURN (s).provider || ':' || (s).model || '@' || (s).asked::text || '/' || (s).version::text;

-- Find the number of the space with a name; NULL if there is none.
CREATE FUNCTION space_number(p_name text) RETURNS int
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT s.id FROM space s WHERE name_of(s) = p_name
$$;

-- Count a change of collections or spaces: processes that know an older state read it anew.
CREATE FUNCTION note_change() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, embedq, pg_temp AS $$
  UPDATE control SET epoch = epoch + 1
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
    EXECUTE format('CREATE INDEX ON embedq.vector_%s (substr(hash, 1, 8))', p_space);  -- small, to reuse vectors
    EXECUTE format('CREATE INDEX ON embedq.vector_%s (record) WHERE truncated', p_space);
    -- how a settle stores vectors: functions of this table's own, so that their plans are kept. Where none of the
    -- records can have one yet, adding them takes two thirds of the time.
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
    PERFORM note_change();
    PERFORM issue_rights();
  END IF;
  RETURN fixed;
END
$$;

-- Say who called a function that runs as the owner: the role that was set, or else the login.
CREATE FUNCTION invoker() RETURNS name LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('role'), 'none'), session_user);

-- Take requests and tokens from the fleet's budget: zero, or how long to wait. A bound that is null does not bind. What
-- must leave the window first is found as `policy.budgets.blocking` finds it. A refusal is a hold until there is room:
-- no worker leases jobs that could not be embedded now. Readers' queries spend it too, but a budget and a moment that
-- are a worker's alone clear the log and hold the others: a reader could make room, or stop everybody.
CREATE FUNCTION take_budget(p_space int, p_requests int, p_tokens bigint, p_interval interval,
  p_want int, p_want_tokens bigint, p_now timestamptz) RETURNS interval
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  moment timestamptz;
  s space;
  blocking timestamptz;
  free timestamptz;
  is_worker boolean := has_table_privilege(invoker(), 'embedq.worker', 'INSERT');
BEGIN
  PERFORM require_read_committed();
  IF (p_want BETWEEN 1 AND 1000000 AND p_want_tokens BETWEEN 0 AND 1000000000000) IS NOT TRUE OR p_requests < 1
    OR p_tokens < 1 OR p_interval <= interval '0' OR p_interval > interval '1 day' THEN
    RAISE numeric_value_out_of_range USING MESSAGE = 'a budget cannot be taken from in these amounts';
  END IF;
  IF p_interval IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(1701667443, p_space);
  END IF;
  SELECT * INTO s FROM space WHERE id = p_space;
  moment := moment_of(p_now);
  IF s.held_until > moment AND s.held_since <= moment + interval '1 second' THEN
    RETURN s.held_until - moment;
  ELSIF p_interval IS NULL OR s.id IS NULL THEN  -- no collection has this space yet
    RETURN interval '0';
  END IF;
  IF is_worker THEN
    DELETE FROM request r WHERE r.space = p_space
      AND (r.at <= moment - p_interval OR r.at > moment + interval '1 second');
  END IF;
  blocking := blocking_request(p_space, moment, p_interval, p_requests - p_want, p_tokens - p_want_tokens);
  IF blocking IS NOT NULL THEN
    free := greatest(moment + interval '1 millisecond', blocking + p_interval);
    UPDATE space SET held_since = moment, held_until = CASE WHEN held_since > moment + interval '1 second'
      THEN free ELSE greatest(held_until, free) END WHERE id = p_space AND is_worker;
    RETURN free - moment;
  END IF;
  INSERT INTO request (space, at, requests, tokens) VALUES (p_space, moment, p_want, p_want_tokens);
  RETURN interval '0';
END
$$;

-- Find the newest of the requests of a window that are more than this room holds; mostly the sums tell that there is
-- none.
CREATE FUNCTION blocking_request(
  p_space int, p_moment timestamptz, p_interval interval, p_requests int, p_tokens bigint
) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  is_full boolean;
  found_at timestamptz;
BEGIN
  SELECT coalesce(sum(r.requests) > p_requests, false) OR coalesce(sum(r.tokens) > p_tokens, false) INTO is_full
    FROM request r WHERE r.space = p_space AND r.at > p_moment - p_interval AND r.at <= p_moment + interval '1 second';
  IF is_full THEN
    SELECT t.at INTO found_at FROM (
      SELECT r.at, sum(r.requests) OVER w AS requests, sum(r.tokens) OVER w AS tokens FROM request r
      WHERE r.space = p_space AND r.at > p_moment - p_interval AND r.at <= p_moment + interval '1 second'
      WINDOW w AS (ORDER BY r.at DESC ROWS UNBOUNDED PRECEDING)) t
    WHERE t.requests > p_requests OR t.tokens > p_tokens ORDER BY t.at DESC LIMIT 1;
  END IF;
  RETURN found_at;
END
$$;
