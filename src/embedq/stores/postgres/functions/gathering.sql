-- Say why a row cannot be a record; NULL: it can.
CREATE FUNCTION refusal(p_id text, p_text text, p_tenant text, p_attributes jsonb, p_bytes int) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN octet_length(p_id) NOT BETWEEN 1 AND 512 THEN 'its id has not 1 to 512 bytes'
    WHEN p_id ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN 'its id holds control characters'
    WHEN octet_length(p_tenant) NOT BETWEEN 1 AND 512 THEN 'its tenant has not 1 to 512 bytes'
    WHEN p_tenant ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN 'its tenant holds control characters'
    WHEN octet_length(p_attributes::text) > 1 << 20 THEN 'its attributes have more than 1 MiB'
    WHEN p_attributes::text ~ '[0-9]{255}' AND jsonb_path_exists(p_attributes,
      '$.** ? (@.type() == "number" && (@ > 1e308 || @ < -1e308))') THEN 'its attributes hold a number beyond 1e308'
    WHEN octet_length(p_text) > p_bytes
    THEN format('its text has %s bytes, the limit is %s: split it, or raise EMBEDQ_MAX_TEXT_BYTES',
      octet_length(p_text), p_bytes)
  END
$$;

-- Read the lane that an expression names. In a Turkish database HIGH in lower case is not high: letters are ASCII's.
CREATE FUNCTION lane_of(p_said text, p_otherwise smallint) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE lower(p_said COLLATE "C") WHEN 'urgent' THEN 3 WHEN '3' THEN 3 WHEN 'high' THEN 2 WHEN '2' THEN 2
    WHEN 'normal' THEN 1 WHEN '1' THEN 1 WHEN 'low' THEN 0 WHEN '0' THEN 0 ELSE p_otherwise END::smallint
$$;

-- Remove records whose rows are gone or have no text. A row whose key changed keeps its vector: no second embedding.
CREATE FUNCTION let_go(c collection, p_ids text[], p_hashes bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  moved record;
BEGIN
  SELECT NULL::bytea[] AS hashes INTO moved;
  IF p_hashes IS NOT NULL AND to_regclass(format('embedq.vector_%s', c.space)) IS NOT NULL THEN
    EXECUTE format('SELECT array_agg(v.hash) AS hashes, array_agg(v.embedding) AS vectors FROM record x
      JOIN vector_%s v ON v.record = x.rid WHERE x.collection = $1 AND x.id = ANY ($2) AND v.hash = ANY ($3)', c.space)
    INTO moved USING c.id, p_ids, p_hashes;
  END IF;
  PERFORM delete_record_rows(c.id, c.space, p_ids, true, NULL, NULL);
  DELETE FROM unplaced u USING record x
    WHERE u.given_up AND u.record = x.rid AND x.collection = c.id AND x.id = ANY (p_ids);
  IF moved.hashes IS NOT NULL THEN
    INSERT INTO spare (space, hash, paid_at, embedding) SELECT c.space, u.hash, clock_timestamp(), u.embedding
    FROM unnest(moved.hashes, moved.vectors) u (hash, embedding) ON CONFLICT DO NOTHING;
  END IF;
END
$$;

-- Look at these keys again: rows that are there are put as they are now, records whose row is gone or has no text are
-- removed permanently. Answer with the keys that must wait, since the texts before them are many bytes. The caller
-- holds the attachment's lock: of two looks at one row, the later one is stored last.
CREATE FUNCTION take_over(a attachment, p_ids text[], p_low boolean, p_lanes boolean, p_bytes int) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  c collection;
  f record;
  answer receipts;
  gone text[];
  uncopied text[];
BEGIN
  SELECT * INTO c FROM collection WHERE id = a.collection;
  EXECUTE format('
    SELECT array_agg(z.id) FILTER (WHERE z.fit) AS ids, array_agg(z.text) FILTER (WHERE z.fit) AS texts,
      array_agg(sha256(convert_to(z.text, ''UTF8''))) FILTER (WHERE z.fit) AS hashes,
      array_agg(z.attributes) FILTER (WHERE z.fit) AS attributes, array_agg(z.tenant) FILTER (WHERE z.fit) AS tenants,
      array_agg(CASE WHEN $4 THEN 0::smallint ELSE lane_of(z.priority, $5) END) FILTER (WHERE z.fit) AS priorities,
      array_agg(z.copied IS NOT TRUE) FILTER (WHERE z.fit) AS bare,
      array_agg(z.id) FILTER (WHERE z.soon AND NOT z.fit AND z.copied IS NOT NULL) AS outdated,
      array_agg(z.id) FILTER (WHERE z.soon AND z.reason IS NOT NULL) AS odd,
      array_agg(z.reason) FILTER (WHERE z.soon AND z.reason IS NOT NULL) AS reasons,
      array_agg(z.id) FILTER (WHERE NOT z.soon) AS later
    FROM (
      SELECT y.*, y.soon AND y.reason IS NULL AND y.text ~ ''[^[:space:]]'' AS fit FROM (
        SELECT w.*, row_number() OVER line AS place, refusal(w.id, w.text, w.tenant, w.attributes, $3) AS reason,
          sum(octet_length(w.text)) OVER line - octet_length(w.text) < 1 << 25 AS soon
        FROM read_%s($1, $2) w
        WINDOW line AS (ORDER BY w.id COLLATE "C" ROWS UNBOUNDED PRECEDING)) y
      ORDER BY y.place) z', a.id)
  INTO f USING p_ids, p_lanes, p_bytes, p_low, c.priority;
  IF f.ids IS NOT NULL THEN
    UPDATE record x SET tenant = u.tenant FROM unnest(f.ids, f.tenants) u (id, tenant)  -- the table says whose a row is
    WHERE x.collection = c.id AND x.id = u.id AND x.tenant IS DISTINCT FROM u.tenant AND x.hash <> '';
    answer := put_rows(c.name, c.id, c.revision, ARRAY(SELECT generate_series(1, cardinality(f.ids))), f.ids,
      f.texts, f.hashes,
      f.attributes, f.tenants, f.priorities, NULL, true);
    IF answer.problem IS NOT NULL THEN
      RAISE serialization_failure USING MESSAGE = 'the collection has just changed';
    END IF;
  END IF;
  gone := ARRAY(SELECT unnest(p_ids) EXCEPT (SELECT unnest(f.ids) UNION ALL SELECT unnest(f.later)));
  IF gone <> '{}' THEN
    PERFORM let_go(c, gone, f.hashes);
  END IF;
  uncopied := f.outdated;  -- a row without its record's vector, or with another, gets that, if there is one
  IF a.target IS NOT NULL AND answer.fresh IS NULL AND true = ANY (f.bare) THEN
    uncopied := uncopied || ARRAY(SELECT f.ids[s.place] FROM unnest(answer.places, answer.statuses) s (place, status)
      WHERE s.status = 1 AND f.bare[s.place]);
  END IF;
  IF uncopied <> '{}' THEN
    PERFORM copy_out(c.id, ARRAY(SELECT x.rid FROM record x WHERE x.collection = c.id AND x.id = ANY (uncopied)));
  END IF;
  DELETE FROM refused r WHERE r.attachment = a.id AND r.key = ANY (ARRAY(
    SELECT sha256(convert_to(u.id, 'UTF8')) FROM unnest(p_ids) u (id)));
  INSERT INTO refused SELECT a.id, sha256(convert_to(u.id, 'UTF8')), u.id, u.reason
    FROM unnest(f.odd, f.reasons) u (id, reason) ON CONFLICT DO NOTHING;
  RETURN f.later;
END
$$;

-- Take over rows, whatever they hold: what cannot be read or stored is found by halving and noted, the others go on. A
-- lane that cannot be computed keeps no text from being embedded.
CREATE FUNCTION absorb(a attachment, p_ids text[], p_low boolean, p_lanes boolean, p_bytes int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  n int := cardinality(p_ids);
  step int;
  later text[];
  said text;
  is_key boolean;
  alone boolean := false;
  c collection;
BEGIN
  BEGIN
    later := take_over(a, p_ids, p_low, p_lanes, p_bytes);
  EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE ~ '^(0A|42|58|XX)' AND p_lanes THEN  -- it may be the lane that cannot be computed
      alone := true;
    ELSIF SQLSTATE ~ '^(0A|25|28|40|42|53|55|57|58|EQ|XX)' THEN  -- it is not about what a row holds
      RAISE;
    ELSE
      said := SQLERRM;
    END IF;
  END;
  IF alone THEN
    PERFORM absorb(a, p_ids, p_low, false, p_bytes);
    RETURN;
  END IF;
  IF said IS NULL AND later IS NOT NULL THEN
    step := n - cardinality(later);
    FOR i IN 0..(cardinality(later) - 1) / step LOOP
      PERFORM absorb(a, later[i * step + 1 : (i + 1) * step], p_low, p_lanes, p_bytes);
    END LOOP;
  ELSIF said IS NOT NULL AND n > 1 THEN
    PERFORM absorb(a, p_ids[: n / 2], p_low, p_lanes, p_bytes), absorb(a, p_ids[n / 2 + 1 :], p_low, p_lanes, p_bytes);
  ELSIF said IS NOT NULL AND p_lanes THEN
    PERFORM absorb(a, p_ids, p_low, false, p_bytes);
  ELSIF said IS NOT NULL THEN
    EXECUTE format('SELECT is_key_%s($1)', a.id) INTO is_key USING p_ids[1];
    IF NOT is_key AND EXISTS (
      SELECT FROM record x WHERE x.collection = a.collection AND x.id = p_ids[1] AND x.valid_to IS NULL) THEN
      SELECT * INTO c FROM collection WHERE id = a.collection;  -- of the time when keys had another type
      PERFORM let_go(c, p_ids, NULL);
      said := NULL;
    END IF;
    DELETE FROM refused r WHERE r.attachment = a.id AND r.key = sha256(convert_to(p_ids[1], 'UTF8'));
    INSERT INTO refused SELECT a.id, sha256(convert_to(p_ids[1], 'UTF8')), p_ids[1], said WHERE said IS NOT NULL;
  END IF;
END
$$;

-- Take over what the table has noted, up to so many rows; answer with how many, and whether it was emptied.
CREATE FUNCTION take_notes(a attachment, p_limit int, p_bytes int, OUT done int, OUT emptied boolean)
LANGUAGE plpgsql AS $$
DECLARE
  ids text[];
BEGIN
  WITH taken AS (
    DELETE FROM noted n WHERE n.attachment = a.id AND n.id = ANY (ARRAY(
      SELECT z.id FROM (
        SELECT m.id, sum(m.size) OVER (ORDER BY m.id) - m.size AS before FROM (
          SELECT o.id, coalesce(cardinality(o.keys), 0) AS size FROM noted o WHERE o.attachment = a.id
          ORDER BY o.id LIMIT 1000) m) z
      WHERE z.before < p_limit)) RETURNING n.keys)
  SELECT array_agg(DISTINCT u.id) FILTER (WHERE u.id IS NOT NULL), coalesce(bool_or(t.keys IS NULL), false),
    count(DISTINCT u.id)
  INTO ids, emptied, done FROM taken t LEFT JOIN LATERAL unnest(t.keys) u (id) ON true;
  IF done > 4 * p_limit THEN  -- one statement changed very many rows: its note is cut
    INSERT INTO noted (attachment, keys) SELECT a.id, array_agg(u.id) FROM unnest(ids) WITH ORDINALITY u (id, n)
      GROUP BY (u.n - 1) / p_limit;
  ELSIF ids IS NOT NULL THEN
    PERFORM absorb(a, ids, false, a.priority IS NOT NULL AND p_limit > 1, p_bytes);  -- one row took too long: its lane
  END IF;
END
$$;

-- Take the vectors in the rows' own column for those of their texts, where a row is as it was when it was said: their
-- jobs find them as paid for. Answer with how many rows that were.
CREATE FUNCTION adopt(a attachment, p_ids text[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  n bigint := 0;
BEGIN
  IF a.adopting IS NOT NULL AND a.target IS NOT NULL THEN
    EXECUTE format('SELECT adopt_%s($1, $2)', a.id) INTO n USING p_ids, a.adopting;
  END IF;
  RETURN n;
EXCEPTION WHEN data_exception THEN  -- one of the rows cannot be read: they are embedded
  RETURN 0;
END
$$;

-- Take over what one table has noted, and walk on through it where that is due; answer with how much was done. `p_lost`
-- was read before this transaction had a number: a transaction that could not note until then has a lower one.
CREATE FUNCTION gather_one(p_attachment int, p_lost bigint, p_limit int, p_bytes int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  a attachment;
  ids text[];
  t record;
  page int;
  done int;
BEGIN
  UPDATE attachment SET unnoted = p_lost, walk_after = pg_current_xact_id()
    WHERE id = p_attachment AND unnoted < p_lost;
  UPDATE attachment SET walk_after = NULL, walked_to = '', pruned_to = '', seen = 0
    WHERE id = p_attachment AND walk_after <= pg_snapshot_xmin(pg_current_snapshot());
  SELECT * INTO a FROM attachment WHERE id = p_attachment;
  IF NOT FOUND THEN
    RETURN 0;
  ELSIF NOT is_named(a) THEN
    RAISE EXCEPTION 'the table % has another name now', a.made_for;
  END IF;
  SELECT * INTO t FROM take_notes(a, p_limit, p_bytes);
  done := t.done;
  IF t.emptied THEN
    done := done + 1;
    a.pruned_to := '';
    DELETE FROM refused r WHERE r.attachment = a.id;
    IF FOUND THEN  -- some of them may be in another partition
      a.walked_to := '';
      a.seen := 0;
    END IF;
  END IF;
  IF a.walked_to IS NOT NULL THEN
    page := CASE a.walked_to WHEN '' THEN greatest(p_limit, 2) ELSE p_limit END;  -- the first key may be '' itself
    EXECUTE format('SELECT array_agg(w) FROM page_%s($1, $2) w', a.id) INTO ids USING a.walked_to, page;
    a.walked_to := CASE WHEN cardinality(ids) = page THEN ids[page] END;
    IF ids IS NOT NULL THEN
      a.adopted := a.adopted + adopt(a, ids);
      PERFORM absorb(a, ids, true, false, p_bytes);
    END IF;
    IF a.walked_to IS NULL THEN
      a.adopting := NULL;
    END IF;
    a.seen := a.seen + coalesce(cardinality(ids), 0);
    done := done + 1;
  END IF;
  IF a.pruned_to IS NOT NULL THEN
    ids := ARRAY(SELECT x.id FROM record x WHERE x.collection = a.collection AND x.id > a.pruned_to
      AND x.valid_to IS NULL ORDER BY x.id LIMIT p_limit);
    a.pruned_to := CASE WHEN cardinality(ids) = p_limit THEN ids[p_limit] END;
    IF ids <> '{}' THEN
      PERFORM absorb(a, ids, true, false, p_bytes);
    END IF;
    done := done + 1;
  END IF;
  done := done + copy_rest(a, p_limit);
  UPDATE attachment n SET walked_to = a.walked_to, pruned_to = a.pruned_to, seen = a.seen, problem = NULL,
      adopting = a.adopting, adopted = a.adopted
    WHERE n.id = a.id AND (n.walked_to, n.pruned_to, n.seen, n.problem)
      IS DISTINCT FROM (a.walked_to, a.pruned_to, a.seen, NULL::text);
  RETURN done;
END
$$;

-- Take over what attached tables have noted, one process per table at a time, from the table after p_after on until
-- something was done: rows of applications are held no longer than that takes. Answer with how much was done where, and
-- with what stands in the way. A table in trouble keeps its notes and does not hold up the others.
CREATE FUNCTION gather(p_after int, p_limit int, p_bytes int)
RETURNS TABLE (number int, home int, done int, trouble text)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET lock_timeout = '100ms' SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off AS $$
DECLARE
  lost bigint := (SELECT last_value FROM unnoted);
  a attachment;
  begun timestamptz;
  late boolean := false;
BEGIN
  FOR a IN SELECT * FROM attachment ORDER BY id <= p_after, id LOOP
    number := a.id;
    home := a.collection;
    done := 0;
    IF pg_try_advisory_xact_lock(1701667446, a.id) THEN
      begun := clock_timestamp();
      BEGIN
        done := gather_one(a.id, lost, least(p_limit, a.portion), p_bytes);
        IF a.portion < 1000 AND clock_timestamp() < begun + interval '5 seconds' THEN
          UPDATE attachment n SET portion = least(n.portion * 2, 1000) WHERE n.id = a.id;
        END IF;
      EXCEPTION WHEN query_canceled THEN  -- it took longer than a statement may: this one has no time left for others
        UPDATE attachment n SET portion = greatest(n.portion / 8, 1), problem = CASE WHEN n.portion = 1
          THEN 'it takes too long to look at one row: ' || SQLERRM ELSE n.problem END WHERE n.id = a.id;
        late := true;
      WHEN lock_not_available OR transaction_rollback THEN  -- another transaction is in the way: another time
        done := 0;
      WHEN OTHERS THEN
        done := 0;
        UPDATE attachment n SET problem = SQLERRM WHERE n.id = a.id AND n.problem IS DISTINCT FROM SQLERRM;
      END;
    END IF;
    trouble := (SELECT trouble_of(n) FROM attachment n WHERE n.id = a.id);
    RETURN NEXT;
    EXIT WHEN done > 0 OR late;
  END LOOP;
END
$$;

-- Say whether a table is to be walked, or is being walked.
CREATE FUNCTION is_to_walk(a attachment) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT (a).walked_to IS NOT NULL OR (a).pruned_to IS NOT NULL OR (a).walk_after IS NOT NULL
    OR (a).unnoted < (SELECT last_value FROM embedq.unnoted)
$$;

-- Count the changed rows that were not looked at yet, as far as it is worth counting.
CREATE FUNCTION noted_rows(p_attachment int) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT coalesce(sum(n.rows), 0)
  FROM (SELECT o.rows FROM embedq.noted o WHERE o.attachment = p_attachment LIMIT 1000) n
$$;

-- Count what is still to be done for a collection's table: changed rows, vectors to copy, and one for a walk. Of a
-- table that cannot be followed nothing can be done, and it is shown otherwise.
CREATE FUNCTION unread(p_collection int) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT coalesce((
    SELECT noted_rows(a.id) + is_to_walk(a)::int + (
      SELECT count(*) FROM (SELECT FROM unplaced u WHERE u.attachment = a.id AND NOT u.alone LIMIT 1000) z)
    FROM attachment a WHERE a.collection = p_collection AND a.unfit IS NULL
      AND EXISTS (SELECT FROM pg_class c WHERE c.oid = a.source)), 0)
$$;

-- Say why it is not known whether a collection's records are up to date; NULL: they are followed.
CREATE FUNCTION doubt(p_collection int) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT unfollowed(a) FROM attachment a WHERE a.collection = p_collection
$$;
