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

-- Keep a vector that was paid for and fits no record now, unless its text was removed permanently since it was leased:
-- then the record has another mark than the lease read. A purge holds the record FOR UPDATE before it removes what is
-- kept, so it is done, or does not pass this lock, or this lock is not to be had; what edits and deletions hold does
-- not conflict with it. Nothing is kept of a record that is no more, nor what a lease of another installation brings,
-- whose spaces are others. (Of this one, a token may be newer than the newest: the sequence went back with a failover.)
CREATE FUNCTION keep_spare(v paid, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  -- an insert would wait for a transaction that is just removing a row of the same text
  IF EXISTS (SELECT FROM spare s WHERE s.space = (v.job & 4095)::int AND s.hash = v.hash) THEN
    RETURN;
  END IF;
  PERFORM FROM record x WHERE x.rid = v.job >> 12 FOR KEY SHARE SKIP LOCKED;
  IF FOUND THEN
    INSERT INTO spare (space, hash, paid_at, embedding)
    SELECT (v.job & 4095)::int, v.hash, p_now, v.embedding FROM record x, control c, lease_token t
    WHERE x.rid = v.job >> 12 AND x.id = v.record AND x.erased IS NOT DISTINCT FROM v.erasure
      AND v.token BETWEEN c.first_token AND greatest(t.last_value, c.first_token + (1 << 30) - 1)
    ON CONFLICT DO NOTHING;
  END IF;
END
$$;

-- Store vectors of jobs, whose rows are locked, as far as they still fit: the test stands in the statement that writes
-- [6].
CREATE FUNCTION store_vectors(p_vectors paid[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  g record;
BEGIN
  FOR g IN SELECT (v.job & 4095)::int AS space, x.collection, array_agg(x.rid) AS rids,
      array_agg(x.collection) AS homes, array_agg(x.hash) AS hashes, array_agg(v.truncated) AS truncated,
      array_agg(v.embedding) AS vectors
    FROM unnest(p_vectors) v JOIN record x ON x.rid = v.job >> 12 AND x.hash = v.hash AND x.valid_to IS NULL
    GROUP BY 1, 2
  LOOP
    EXECUTE format('SELECT store_%s($1, $2, $3, $4, $5)', g.space)
      USING g.rids, g.homes, g.hashes, g.truncated, g.vectors;
    PERFORM note_missing(g.collection, g.space, g.rids);
    INSERT INTO unplaced (attachment, record)  -- gather copies them: these are some of many
      SELECT a.id, u.rid FROM attachment a CROSS JOIN unnest(g.rids) u (rid)
      WHERE a.collection = g.collection AND a.target IS NOT NULL;
  END LOOP;
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

-- Delete some spare vectors of before a moment, workers that were not seen since and hold nothing, and what was spent
-- of budgets longer ago than any of them counts.
CREATE FUNCTION purge_rest(p_before timestamptz, p_limit int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  removed int;
BEGIN
  DELETE FROM spare WHERE ctid = ANY (ARRAY(
    SELECT s.ctid FROM spare s WHERE s.paid_at < p_before LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS removed = ROW_COUNT;
  DELETE FROM worker w WHERE w.seen_at < p_before AND NOT EXISTS (SELECT FROM lease l WHERE l.worker = w.id);
  DELETE FROM request r WHERE r.at < least(p_before, clock_timestamp() - interval '1 day');
  PERFORM fold();
  RETURN removed;
END
$$;
