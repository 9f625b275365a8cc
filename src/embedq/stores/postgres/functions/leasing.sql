-- Move waiting jobs that are due into the line, and those whose wait begins in the future: the clock was set back. The
-- rules say the same [4] (`policy.jobs.is_due`).
CREATE FUNCTION promote(p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  WITH gone AS (
    DELETE FROM later WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM later l WHERE l.due <= p_now ORDER BY l.due LIMIT 1000 FOR UPDATE SKIP LOCKED)
      || ARRAY(SELECT l.ctid FROM later l WHERE l.since > p_now + interval '1 second' ORDER BY l.since LIMIT 1000
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

-- Choose the space whose first job goes first, by the marks, else from the start; NULL if no job stands in a line.
-- There are four marks for each space.
CREATE FUNCTION choose(p_spaces int[], p_allowed int[], p_mark_keys bigint[], p_mark_jobs bigint[]) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  best int;
BEGIN
  SELECT z.space INTO best FROM (
    SELECT p_spaces[(i + 3) / 4] AS space, (i + 3) % 4 + 1 AS lane, p_mark_keys[i] AS key, p_mark_jobs[i] AS job
    FROM generate_subscripts(p_mark_keys, 1) i) z
  CROSS JOIN LATERAL (
    SELECT r.key FROM ready r
    WHERE r.space = z.space AND r.key < z.lane::bigint << 48 AND (r.key, r.job) > (z.key, z.job)
    ORDER BY r.key, r.job LIMIT 1) f
  WHERE z.space = ANY (p_allowed) ORDER BY f.key LIMIT 1;
  IF best IS NULL AND -1 <> ANY (p_mark_jobs) THEN
    best := choose(p_spaces, p_allowed,
      ARRAY(SELECT ((i + 3) % 4)::bigint << 48 FROM generate_subscripts(p_mark_keys, 1) i),
      array_fill(-1::bigint, ARRAY[cardinality(p_mark_keys)]));
  END IF;
  RETURN best;
END
$$;

-- Say which stretches of a space's line to look through until there is enough: the lowest lane that has work, if it is
-- its turn; what lies behind the marks, lane by lane; all of it.
CREATE FUNCTION stretches(p_space int, p_lowest boolean, p_mark_keys bigint[], p_mark_jobs bigint[]) RETURNS stretch[]
LANGUAGE plpgsql AS $$
DECLARE
  whole CONSTANT stretch := ROW(0, -1, 4::bigint << 48);
  found stretch[] := '{}';
  lowest bigint;
BEGIN
  IF p_lowest THEN
    SELECT r.key >> 48 << 48 INTO lowest FROM ready r WHERE r.space = p_space AND r.key < whole.high
      ORDER BY r.key DESC LIMIT 1;
    IF lowest IS NOT NULL THEN
      found := ARRAY[ROW(lowest, -1, whole.high)::stretch];
    END IF;
  END IF;
  IF p_mark_jobs <> '{-1,-1,-1,-1}' THEN
    FOR lane IN 1..4 LOOP
      found := found || ROW(p_mark_keys[lane], p_mark_jobs[lane], lane::bigint << 48)::stretch;
    END LOOP;
  END IF;
  RETURN found || whole;
END
$$;

-- Take jobs of a stretch out of the line, as far as no other transaction is taking them; the mark of a lane is its
-- last.
CREATE FUNCTION take_stretch(t taken, s stretch, p_limit int) RETURNS taken
LANGUAGE plpgsql AS $$
DECLARE
  age CONSTANT bigint := (1::bigint << 48) - 1;  -- the part of a place that is no lane
  n record;
BEGIN
  SELECT array_agg(z.ctid) AS places, array_agg(z.job) AS jobs, array_agg(z.job >> 12) AS rids,
    array_agg(z.arms) AS arms, array_agg(z.collection) AS homes,
    array_agg(z.job) FILTER (WHERE z.kind & 1 = 1) AS forced, bit_or(z.kind) AS kinds,
    sum(z.key & age) AS queued, min(z.key) = max(z.key) AS one_moment, max(z.key) AS last_key INTO n FROM (
    SELECT r.ctid, r.job, r.key, r.collection, r.arms, r.kind FROM ready r
    WHERE r.space = t.space AND (r.key, r.job) > (s.low_key, s.low_job) AND r.key < s.high
    ORDER BY r.key, r.job LIMIT p_limit FOR UPDATE SKIP LOCKED) z;
  IF n.jobs IS NULL THEN
    RETURN t;
  END IF;
  DELETE FROM ready WHERE ctid = ANY (n.places);  -- safe: rows of the line are never updated
  t.rising := n.one_moment AND t.jobs IS NULL;  -- of one moment, they stand in the order of their keys
  t.jobs := t.jobs || n.jobs;
  t.rids := t.rids || n.rids;
  t.arms := t.arms || n.arms;
  t.homes := t.homes || n.homes;
  t.forced := t.forced || n.forced;
  t.kinds := coalesce(t.kinds, 0) | n.kinds;
  t.queued := coalesce(t.queued, 0) + n.queued;
  IF s.low_key < 4::bigint << 48 THEN
    t.mark_keys[(n.last_key >> 48) + 1] := n.last_key;
    t.mark_jobs[(n.last_key >> 48) + 1] := n.jobs[cardinality(n.jobs)];
  END IF;
  RETURN t;
END
$$;

-- Take up to p_limit jobs from a space's line, unless it is the turn of one that took workers down and stands in
-- p_alone, perhaps another's; else, if nothing is there, that one. `t` comes with the space and its marks, one per
-- lane: where this process took last. Where a snapshot elsewhere keeps rows from being removed, a scan begins behind
-- them, so as not to pass those rows again and again; what lies below (late commits, jobs handed back) is found by a
-- scan from the start.
CREATE FUNCTION take_jobs(t taken, p_alone int, p_solo boolean, p_lowest boolean, p_limit int, p_now timestamptz)
RETURNS taken
LANGUAGE plpgsql AS $$
DECLARE
  s stretch;
  lane int;
BEGIN
  IF t.space IS NOT NULL AND (p_alone IS NULL OR NOT p_solo) THEN
    FOREACH s IN ARRAY stretches(t.space, p_lowest, t.mark_keys, t.mark_jobs) LOOP
      t := take_stretch(t, s, p_limit - coalesce(cardinality(t.jobs), 0));
      EXIT WHEN cardinality(t.jobs) >= p_limit;
      IF s.high - s.low_key <= 1::bigint << 48 THEN  -- taken to its end: only late commits lie before now
        lane := s.high >> 48;
        t.mark_keys[lane] := greatest(t.mark_keys[lane],
          ((lane - 1)::bigint << 48) + floor(date_part('epoch', p_now) * 1000)::bigint - 10000);
      END IF;
    END LOOP;
    t.from_line := t.jobs IS NOT NULL;
  END IF;
  IF t.jobs IS NULL AND p_alone IS NOT NULL THEN
    t.space := p_alone;
    t := take_stretch(t, ROW(4::bigint << 48, -1, 8::bigint << 48), 1);
  END IF;
  RETURN t;
END
$$;

-- Read the records of jobs that were taken. A statement later than the one that locked: the texts are at least as new
-- as the arms in the line, and no newer, since any transaction that edits a record waits for its place in the line.
-- Comparing numbers of a sequence in place of counting arms would be racy: a put may draw its number before the lease
-- and commit after it.
CREATE FUNCTION read_records(answer leased, t taken) RETURNS leased
LANGUAGE plpgsql AS $$
BEGIN
  SELECT array_agg(x.rid), array_agg(x.id), array_agg(x.text), array_agg(x.hash),
    array_agg(x.rid) FILTER (WHERE x.erased IS NOT NULL), array_agg(x.erased) FILTER (WHERE x.erased IS NOT NULL)
  INTO answer.rids, answer.records, answer.texts, answer.hashes, answer.erased, answer.erasures
  FROM record x WHERE x.rid = ANY (t.rids) AND x.valid_to IS NULL;
  IF answer.rids = t.rids THEN  -- the rule: an index brings them in its order
    answer.rids := NULL;
  END IF;
  IF t.kinds & 2 = 0 THEN  -- none of them can have a vector
    answer.lacking := t.rids;
  ELSE
    SELECT array_agg(m.record) INTO answer.lacking
    FROM missing m WHERE m.collection = ANY (t.homes) AND m.record = ANY (t.rids);
  END IF;
  RETURN answer;
END
$$;

-- Read the rows of jobs that were tried or renumbered. One that is not open has no business in the line, and is left
-- out.
CREATE FUNCTION read_history(INOUT answer leased, INOUT t taken)
LANGUAGE plpgsql AS $$
BEGIN
  SELECT array_agg(z.id), array_agg(z.arms),
    array_agg(z.id) FILTER (WHERE z.serial <> z.id >> 12), array_agg(z.serial) FILTER (WHERE z.serial <> z.id >> 12),
    array_agg(z.id) FILTER (WHERE z.attempts > 0), array_agg(z.attempts) FILTER (WHERE z.attempts > 0),
    array_agg(z.id) FILTER (WHERE z.crashes > 0), array_agg(z.crashes) FILTER (WHERE z.crashes > 0)
  INTO t.given, t.arms, answer.renumbered, answer.serials, answer.tried, answer.attempts, answer.crashed, answer.crashes
  FROM (SELECT id, arms, serial, attempts, crashes FROM job WHERE id = ANY (t.jobs) AND status = 0 ORDER BY id) z;
  IF coalesce(cardinality(t.given), 0) < cardinality(t.jobs) THEN
    IF answer.records IS NOT NULL THEN
      answer.rids := coalesce(answer.rids, t.rids);  -- no longer those of the jobs in their order
    END IF;
    SELECT array_agg(u.job ORDER BY u.n), array_agg(u.home ORDER BY u.n) INTO t.jobs, t.homes
    FROM unnest(t.jobs, t.homes) WITH ORDINALITY u (job, home, n) WHERE u.job = ANY (t.given);
  END IF;
END
$$;

-- Write a lease of jobs that were taken; `given` are the same, ascending.
CREATE FUNCTION write_lease(answer leased, t taken, p_worker text, p_nonce bigint, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  holder int := (SELECT w.id FROM worker w WHERE w.name = p_worker);
BEGIN
  IF holder IS NULL THEN
    holder := enter_worker(p_worker, p_now);
  END IF;
  INSERT INTO lease (token, since, renewed, until, worker, space, queued, fresh, nonce, jobs, arms) VALUES (
    answer.token, p_now, p_now, answer.until, holder, t.space,
    to_timestamp(t.queued / cardinality(t.rids) / 1000.0), t.kinds & 2 = 0, p_nonce, t.given, t.arms);
END
$$;

-- Lease jobs that were taken, if there are any; else say when something may be due.
CREATE FUNCTION lease_taken(
  answer leased, t taken, p_numbers int[], p_worker text, p_span interval, p_nonce bigint, p_now timestamptz
) RETURNS leased
LANGUAGE plpgsql AS $$
DECLARE
  h record;
BEGIN
  answer.space := t.space;
  answer.asked := array_position(p_numbers, t.space);
  answer.from_line := t.from_line;
  answer.mark_keys := t.mark_keys;
  answer.mark_jobs := t.mark_jobs;
  answer.forced := t.forced;
  IF t.jobs IS NOT NULL THEN
    answer := read_records(answer, t);
    IF t.kinds & 4 <> 0 THEN
      SELECT * INTO h FROM read_history(answer, t);
      answer := h.answer;
      t := h.t;
    ELSIF t.rising THEN
      t.given := t.jobs;
    ELSE
      SELECT array_agg(u.job ORDER BY u.job), array_agg(u.arms ORDER BY u.job) INTO t.given, t.arms
      FROM unnest(t.jobs, t.arms) u (job, arms);
    END IF;
  END IF;
  IF t.given IS NULL THEN
    SELECT min(z.due) - p_now INTO answer.again FROM (
      SELECT min(l.due) AS due FROM later l
      UNION ALL SELECT min(s.held_until) FROM space s WHERE s.id = ANY (p_numbers) AND s.held_until > p_now) z;
    RETURN answer;
  END IF;
  answer.taken := t.jobs;
  answer.collections := CASE WHEN t.homes[1] = ALL (t.homes) THEN t.homes[1:1] ELSE t.homes END;
  answer.token := nextval('lease_token');
  answer.until := p_now + p_span;
  PERFORM write_lease(answer, t, p_worker, p_nonce, p_now);
  RETURN answer;
END
$$;

-- Lease up to p_limit jobs of one of the asked spaces, best lane first. The marks are four for each space that was
-- asked for.
CREATE FUNCTION lease(
  p_worker text, p_asked text[], p_limit int, p_span interval, p_prefetch boolean, p_lowest boolean, p_solo boolean,
  p_mark_keys bigint[], p_mark_jobs bigint[], p_nonce bigint, p_now timestamptz
) RETURNS leased
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
DECLARE
  solo_lanes CONSTANT bigint := 4::bigint << 48;
  answer leased;
  t taken;
  moment timestamptz := coalesce(p_now, clock_timestamp());
  may boolean;        -- lease at all: no pause is just being made
  is_due boolean;
  numbers int[];      -- of the asked spaces, in their order
  spaces int[];       -- those that may be worked on
  alone int;          -- a space where a job stands that took workers down: it goes alone
  first int;          -- where the marks of the chosen space begin
BEGIN
  PERFORM require_read_committed();
  PERFORM pg_advisory_xact_lock(p_nonce);  -- handing it back waits until it is there, or never will be
  -- a pause waits for this lock: after it, no lease is under way that has not seen the pause
  may := pg_try_advisory_xact_lock_shared(1701667448, 0);
  SELECT c.epoch + c.first_token, EXISTS (SELECT FROM later l WHERE l.due <= moment)
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
  t.space := CASE WHEN cardinality(p_asked) = 1 THEN spaces[1]
    ELSE choose(numbers, spaces, p_mark_keys, p_mark_jobs) END;
  first := array_position(numbers, t.space) * 4 - 3;
  t.mark_keys := p_mark_keys[first : first + 3];
  t.mark_jobs := p_mark_jobs[first : first + 3];
  answer.scan_seconds := date_part('epoch', clock_timestamp());
  t := take_jobs(t, alone, p_solo, p_lowest, p_limit, moment);
  answer.scan_seconds := date_part('epoch', clock_timestamp()) - answer.scan_seconds;
  answer.solo := alone IS NOT NULL;
  RETURN lease_taken(answer, t, numbers, p_worker, p_span, p_nonce, moment);
END
$$;
