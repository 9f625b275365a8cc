-- Move waiting jobs that are due into the line, and those whose wait begins in the future: the clock was set back.
CREATE FUNCTION promote(p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  WITH gone AS (
    DELETE FROM later WHERE ctid = ANY (ARRAY(
      SELECT l.ctid FROM later l WHERE l.due <= p_now ORDER BY l.due LIMIT 1000 FOR UPDATE SKIP LOCKED))
    RETURNING space, collection, key, job)
  INSERT INTO ready (space, collection, key, job, arms, kind)
  SELECT g.space, g.collection, g.key, g.job, j.arms, kind_of(j) FROM gone g JOIN job j ON j.id = g.job
  ON CONFLICT DO NOTHING;
  WITH gone AS (
    DELETE FROM later WHERE ctid = ANY (ARRAY(
      SELECT l.ctid FROM later l WHERE l.since > p_now + interval '1 second' ORDER BY l.since LIMIT 1000
      FOR UPDATE SKIP LOCKED))
    RETURNING space, collection, key, job)
  INSERT INTO ready (space, collection, key, job, arms, kind)
  SELECT g.space, g.collection, g.key, g.job, j.arms, kind_of(j) FROM gone g JOIN job j ON j.id = g.job
  ON CONFLICT DO NOTHING;
END
$$;

-- Give a number to a worker that never registered; it is listed only while it holds a lease.
CREATE FUNCTION enter_worker(p_worker text, p_now timestamptz) RETURNS int LANGUAGE sql AS $$
  INSERT INTO worker (name, started_at, seen_at, gone) VALUES (p_worker, p_now, p_now, true)
  ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id
$$;

-- Name a space, as every database does. A number may be another space's after a schema was begun anew or a backup restored,
-- so no process keeps one.
CREATE FUNCTION name_of(s space) RETURNS text LANGUAGE sql IMMUTABLE
RETURN (s).provider || ':' || (s).model || '@' || (s).asked::text || '/' || (s).version::text;

-- Find the number of the space with a name; NULL if there is none.
CREATE FUNCTION space_number(p_name text) RETURNS int
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT s.id FROM space s WHERE name_of(s) = p_name
$$;

-- Choose the space whose first job goes first, by the marks, else from the start; NULL if nobody stands in a line.
CREATE FUNCTION choose(p_spaces int[], p_allowed int[], p_mark_keys bigint[], p_mark_jobs bigint[]) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  best bigint;
  best_space int;
  first bigint;
BEGIN
  FOR pass IN 1..2 LOOP
    FOR lane IN 0..3 LOOP
      FOR i IN 1..cardinality(p_spaces) LOOP
        CONTINUE WHEN p_spaces[i] <> ALL (p_allowed);
        SELECT r.key INTO first FROM ready r
          WHERE r.space = p_spaces[i] AND r.key < (lane + 1)::bigint << 48 AND (r.key, r.job) > (
            CASE pass WHEN 1 THEN p_mark_keys[i * 4 - 3 + lane] ELSE lane::bigint << 48 END,
            CASE pass WHEN 1 THEN p_mark_jobs[i * 4 - 3 + lane] ELSE -1 END)
          ORDER BY r.key, r.job LIMIT 1;
        IF FOUND AND (best IS NULL OR first < best) THEN
          best := first;
          best_space := p_spaces[i];
        END IF;
      END LOOP;
      IF best IS NOT NULL THEN
        RETURN best_space;
      END IF;
    END LOOP;
  END LOOP;
  RETURN NULL;
END
$$;

-- Say whether ascending record numbers are all those from the first to the last, as in a bulk load: then they are read by
-- their range, which spares PostgreSQL 16 a descent into the index for each.
CREATE FUNCTION is_run(p_rids bigint[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_rids[cardinality(p_rids)] - p_rids[1] = cardinality(p_rids) - 1
$$;

-- Lease up to p_limit jobs of one space, best lane first. A mark per space and lane is the last place that this process took:
-- where a snapshot elsewhere keeps rows from being removed, the scan begins behind it, so as not to pass them again
-- and again. What lies below a mark (late commits, jobs handed back) is found by a scan from the start.
CREATE FUNCTION lease(
  p_worker text, p_asked text[], p_limit int, p_span interval, p_prefetch boolean, p_lowest boolean, p_solo boolean,
  p_mark_keys bigint[], p_mark_jobs bigint[], p_nonce bigint, p_now timestamptz
) RETURNS leased
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
DECLARE
  solo_lanes CONSTANT bigint := 4::bigint << 48;
  age CONSTANT bigint := (1::bigint << 48) - 1;  -- the part of a place that is no lane
  answer leased;
  moment timestamptz := coalesce(p_now, clock_timestamp());
  may boolean;        -- lease at all: nobody is pausing just now
  is_due boolean;
  numbers int[];      -- of the asked spaces, in their order
  spaces int[];       -- those that may be worked on
  alone int;          -- a space where a job stands that took workers down: it goes alone
  marks int;          -- where the marks of the chosen space begin
  marked boolean;
  low_keys bigint[] := '{}';  -- the stretches to look through, until there is enough
  low_jobs bigint[] := '{}';
  highs bigint[] := '{}';
  lane int;
  taken bigint[] := '{}';
  rids bigint[] := '{}';
  homes int[] := '{}';
  one_home boolean;
  given bigint[];
  given_arms int[];
  kinds smallint := 0;
  taken_arms int[] := '{}';
  stretch_arms int[];
  stretch_forced bigint[];
  stretch_kinds smallint;
  one_moment boolean;
  rising boolean;     -- whether the jobs taken are in the order of their keys
  holder int;
  is_one boolean;
  stretch_rids bigint[];
  stretch_homes int[];
  last_key bigint;
  ages bigint;
  queued bigint := 0;
  stretch bigint[];
  stretch_rows tid[];
BEGIN
  PERFORM require_read_committed();
  PERFORM pg_advisory_xact_lock(p_nonce);  -- whoever hands this lease back waits until it is there, or never will be
  -- whoever pauses waits for this lock: after it, no lease is under way that has not seen the pause
  may := pg_try_advisory_xact_lock_shared(1701667448, 0);
  SELECT c.epoch, EXISTS (SELECT FROM later l WHERE l.due <= moment)
    OR EXISTS (SELECT FROM later l WHERE l.since > moment + interval '1 second'), a.numbers, a.spaces, r.space
  INTO answer.epoch, is_due, numbers, spaces, alone
  FROM control c
  CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(s.id ORDER BY u.n), '{}') AS numbers,
      coalesce(array_agg(s.id) FILTER (WHERE NOT c.paused AND may
        AND NOT (s.held_until > moment AND s.held_since <= moment + interval '1 second')), '{}') AS spaces
    FROM unnest(p_asked) WITH ORDINALITY u (name, n) LEFT JOIN space s ON name_of(s) = u.name) a
  LEFT JOIN LATERAL (SELECT r.space FROM ready r WHERE r.space = ANY (a.spaces) AND r.key >= solo_lanes
    AND NOT p_prefetch ORDER BY r.space, r.key LIMIT 1) r ON true;
  IF is_due THEN
    PERFORM promote(moment);
    IF NOT p_prefetch THEN
      SELECT r.space INTO alone FROM ready r
        WHERE r.space = ANY (spaces) AND r.key >= solo_lanes ORDER BY r.space, r.key LIMIT 1;
    END IF;
  END IF;
  answer.solo := alone IS NOT NULL;
  IF cardinality(p_asked) = 1 THEN
    answer.space := spaces[1];
  ELSE
    answer.space := choose(numbers, spaces, p_mark_keys, p_mark_jobs);
  END IF;
  answer.mark_keys := p_mark_keys;
  answer.mark_jobs := p_mark_jobs;
  IF answer.space IS NOT NULL AND (alone IS NULL OR NOT p_solo) THEN
    marks := array_position(numbers, answer.space) * 4 - 3;
    marked := (p_mark_jobs[marks] & p_mark_jobs[marks + 1] & p_mark_jobs[marks + 2] & p_mark_jobs[marks + 3]) <> -1;
    IF p_lowest THEN
      SELECT r.key INTO last_key FROM ready r WHERE r.space = answer.space AND r.key < solo_lanes
        ORDER BY r.key DESC LIMIT 1;
      IF FOUND THEN
        low_keys := ARRAY[last_key >> 48 << 48];
        low_jobs := ARRAY[-1];
        highs := ARRAY[solo_lanes];
      END IF;
    END IF;
    IF marked THEN
      low_keys := low_keys || p_mark_keys[marks : marks + 3];
      low_jobs := low_jobs || p_mark_jobs[marks : marks + 3];
      highs := highs || ARRAY[1::bigint << 48, 2::bigint << 48, 3::bigint << 48, solo_lanes];
    END IF;
    low_keys := low_keys || 0::bigint;
    low_jobs := low_jobs || -1::bigint;
    highs := highs || solo_lanes;
  END IF;
  IF alone IS NOT NULL THEN
    low_keys := low_keys || solo_lanes;
    low_jobs := low_jobs || -1::bigint;
    highs := highs || 2 * solo_lanes;
  END IF;

  answer.scan_seconds := date_part('epoch', clock_timestamp());
  FOR i IN 1..cardinality(low_keys) LOOP
    IF low_keys[i] >= solo_lanes THEN
      EXIT WHEN taken <> '{}';
      answer.space := alone;
    END IF;
    SELECT array_agg(z.ctid), array_agg(z.job), array_agg(z.job >> 12), max(z.key), array_agg(z.collection),
      min(z.collection) = max(z.collection), sum(z.key & age), array_agg(z.arms), bit_or(z.kind),
      array_agg(z.job) FILTER (WHERE z.kind & 1 = 1), min(z.key) = max(z.key)
    INTO stretch_rows, stretch, stretch_rids, last_key, stretch_homes, is_one, ages, stretch_arms, stretch_kinds,
      stretch_forced, one_moment FROM (
      SELECT r.ctid, r.job, r.key, r.collection, r.arms, r.kind FROM ready r
      WHERE r.space = answer.space AND (r.key, r.job) > (low_keys[i], low_jobs[i]) AND r.key < highs[i]
      ORDER BY r.key, r.job
      LIMIT CASE WHEN low_keys[i] >= solo_lanes THEN 1 ELSE p_limit - cardinality(taken) END
      FOR UPDATE SKIP LOCKED) z;
    IF stretch IS NOT NULL THEN
      DELETE FROM ready WHERE ctid = ANY (stretch_rows);  -- safe: rows of the line are never updated
      one_home := is_one AND (taken = '{}' OR (one_home AND stretch_homes[1] = homes[1]));
      taken := taken || stretch;
      rids := rids || stretch_rids;
      homes := homes || stretch_homes;
      taken_arms := taken_arms || stretch_arms;
      kinds := kinds | stretch_kinds;
      rising := one_moment AND stretch = taken;  -- of one moment, they stand in the order of their keys
      answer.forced := answer.forced || stretch_forced;
      queued := queued + ages;
      answer.from_line := low_keys[i] < solo_lanes;
      IF answer.from_line THEN
        lane := last_key >> 48;
        answer.mark_keys[marks + lane] := last_key;
        answer.mark_jobs[marks + lane] := stretch[cardinality(stretch)];
      END IF;
    END IF;
    EXIT WHEN cardinality(taken) >= p_limit;
    IF marked AND highs[i] - low_keys[i] <= 1::bigint << 48 THEN  -- taken to its end: only late commits lie before now
      lane := low_keys[i] >> 48;
      answer.mark_keys[marks + lane] := greatest(answer.mark_keys[marks + lane],
        (lane::bigint << 48) + floor(date_part('epoch', moment) * 1000)::bigint - 10000);
    END IF;
  END LOOP;
  answer.scan_seconds := date_part('epoch', clock_timestamp()) - answer.scan_seconds;
  answer.asked := array_position(numbers, answer.space);

  IF taken <> '{}' THEN
    -- A statement later than the one that locked: the texts are at least as new as the arms in the line, and no newer,
    -- since whoever edits a record waits for its place in the line. Comparing numbers of a sequence in place of counting
    -- arms would be racy: a put may draw its number before the lease and commit after it.
    IF one_home THEN
      homes := homes[1:1];
    END IF;
    IF rising AND is_run(rids) THEN
      SELECT array_agg(x.rid), array_agg(x.id), array_agg(x.text), array_agg(x.hash)
      INTO answer.rids, answer.records, answer.texts, answer.hashes
      FROM record x WHERE x.rid BETWEEN rids[1] AND rids[cardinality(rids)] AND x.valid_to IS NULL;
    ELSE
      SELECT array_agg(x.rid), array_agg(x.id), array_agg(x.text), array_agg(x.hash)
      INTO answer.rids, answer.records, answer.texts, answer.hashes
      FROM record x WHERE x.rid = ANY (rids) AND x.valid_to IS NULL;
    END IF;
    IF kinds & 2 = 0 THEN  -- none of them can have a vector
      answer.lacking := rids;
    ELSE
      SELECT array_agg(m.record) INTO answer.lacking
      FROM missing m WHERE m.collection = ANY (homes) AND m.record = ANY (rids);
    END IF;
    IF kinds & 4 = 0 AND rising THEN
      given := taken;
      given_arms := taken_arms;
    ELSIF kinds & 4 = 0 THEN
      SELECT array_agg(u.job ORDER BY u.job), array_agg(u.arms ORDER BY u.job) INTO given, given_arms
      FROM unnest(taken, taken_arms) u (job, arms);
    ELSE
      SELECT array_agg(z.id), array_agg(z.arms),
        array_agg(z.id) FILTER (WHERE z.serial <> z.id >> 12), array_agg(z.serial) FILTER (WHERE z.serial <> z.id >> 12),
        array_agg(z.id) FILTER (WHERE z.attempts > 0), array_agg(z.attempts) FILTER (WHERE z.attempts > 0),
        array_agg(z.id) FILTER (WHERE z.crashes > 0), array_agg(z.crashes) FILTER (WHERE z.crashes > 0)
      INTO given, given_arms, answer.renumbered, answer.serials, answer.tried, answer.attempts, answer.crashed,
        answer.crashes
      FROM (SELECT id, arms, serial, attempts, crashes FROM job WHERE id = ANY (taken) AND status = 0 ORDER BY id) z;
    END IF;
  END IF;
  IF given IS NULL THEN
    SELECT min(z.due) - moment INTO answer.again FROM (
      SELECT min(l.due) AS due FROM later l
      UNION ALL SELECT min(s.held_until) FROM space s WHERE s.id = ANY (numbers) AND s.held_until > moment) z;
    RETURN answer;
  END IF;
  IF cardinality(given) < cardinality(taken) THEN  -- a job that is not open has no business in the line
    SELECT array_agg(u.job ORDER BY u.n), array_agg(u.home ORDER BY u.n) INTO taken, homes
    FROM unnest(taken, CASE WHEN one_home THEN array_fill(homes[1], ARRAY[cardinality(taken)]) ELSE homes END)
      WITH ORDINALITY u (job, home, n) WHERE u.job = ANY (given);
  END IF;
  IF cardinality(taken) = cardinality(rids) AND answer.rids = rids THEN  -- the rule: an index brings them in its order
    answer.rids := NULL;
  END IF;
  answer.taken := taken;
  answer.collections := homes;
  answer.token := nextval('lease_token');
  answer.until := moment + p_span;
  SELECT w.id INTO holder FROM worker w WHERE w.name = p_worker;
  IF holder IS NULL THEN
    holder := enter_worker(p_worker, moment);
  END IF;
  INSERT INTO lease (token, since, renewed, until, worker, space, queued, fresh, nonce, jobs, arms) VALUES (
    answer.token, moment, moment, answer.until, holder, answer.space,
    to_timestamp(queued / cardinality(taken) / 1000.0), kinds & 2 = 0, p_nonce, given, given_arms);
  RETURN answer;
END
$$;
