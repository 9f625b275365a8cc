-- Write records that were never there, with their jobs unless these are elsewhere; answer with their numbers, in the
-- order of the arguments, and NULL where another writer was faster. Ids come sorted: two writers of the same new ids
-- never wait in a circle.
CREATE FUNCTION insert_records(
  p_collection int, p_space int, p_ids text[], p_texts text[], p_hashes bytea[], p_attributes jsonb[], p_tenants text[],
  p_priorities smallint[], p_places int[], p_elsewhere boolean, p_now timestamptz
) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  total int := cardinality(p_ids);
  numbers bigint[] := ARRAY(SELECT nextval('record_rid') FROM generate_series(1, total));
  rids bigint[];
  added int;
  language text := (SELECT c.language FROM collection c WHERE c.id = p_collection);
BEGIN
  -- numbers follow the request's order, so that older places in it go first
  rids := ARRAY(SELECT numbers[p.rank] FROM (
    SELECT n, rank() OVER (ORDER BY p_places[n]) AS rank FROM generate_series(1, total) n) p ORDER BY p.n);
  INSERT INTO record (rid, collection, id, hash, text, attributes, tenant, created_at, updated_at, words)
  SELECT u.rid, p_collection, u.id, u.hash, u.text, coalesce(u.attributes, '{}'), u.tenant, p_now, p_now,
    indexed_words(language, p_collection, u.text)
  FROM unnest(rids, p_ids, p_hashes, p_texts, p_attributes, p_tenants) u (rid, id, hash, text, attributes, tenant)
  ON CONFLICT (collection, id) DO NOTHING;
  GET DIAGNOSTICS added = ROW_COUNT;
  IF added < total THEN
    rids := ARRAY(SELECT x.rid FROM unnest(rids) WITH ORDINALITY u (rid, n) LEFT JOIN record x ON x.rid = u.rid
      ORDER BY u.n);
  END IF;
  INSERT INTO missing SELECT p_collection, u.rid FROM unnest(rids) u (rid) WHERE u.rid IS NOT NULL;
  IF p_elsewhere THEN
    INSERT INTO tally (collection, records, missing) VALUES (p_collection, added, added);
    RETURN rids;
  END IF;
  INSERT INTO job (id, serial, collection, priority, queued_at, hash, created_at)
  SELECT (u.rid << 12) | p_space, u.rid, p_collection, u.priority, p_now, u.hash, p_now
  FROM unnest(rids, p_hashes, p_priorities) u (rid, hash, priority) WHERE u.rid IS NOT NULL;
  INSERT INTO ready (space, collection, key, job, arms, kind)
  SELECT p_space, p_collection, place(u.priority, 0::smallint, p_now), (u.rid << 12) | p_space, 1, 0
  FROM unnest(rids, p_priorities) u (rid, priority) WHERE u.rid IS NOT NULL;
  INSERT INTO tally (collection, open, records, missing) VALUES (p_collection, added, added, added);
  RETURN rids;
END
$$;

-- Write records that were there and differ, and arm those that the rules say [3] (`policy.jobs.put_arms`). Records are
-- locked, then jobs; only what is read after that decides. Answer with the ids of those whose texts are others than
-- before, or that are live again.
CREATE FUNCTION update_records(
  p_collection int, p_space int, p_ids text[], p_texts text[], p_hashes bytea[], p_attributes jsonb[], p_tenants text[],
  p_priorities smallint[], p_elsewhere boolean, p_now timestamptz
) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  rids bigint[];
  theirs text[];
  moved bigint[];
  moved_ids text[];
  back int;
  language text := (SELECT c.language FROM collection c WHERE c.id = p_collection);
  armed bigint[];
  armed_hashes bytea[];
  armed_priorities smallint[];
  raised bigint[];
  raised_priorities smallint[];
BEGIN
  PERFORM FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids) ORDER BY x.rid FOR NO KEY UPDATE;
  SELECT array_agg(x.rid) INTO rids FROM unnest(p_ids, p_hashes, p_priorities) u (id, hash, priority)
    JOIN record x ON x.collection = p_collection AND x.id = u.id
    LEFT JOIN job j ON j.id = (x.rid << 12) | p_space
    WHERE x.valid_to IS NOT NULL OR x.hash <> u.hash OR (j.status = 0 AND u.priority > j.priority);
  PERFORM FROM job j WHERE j.id = ANY (ARRAY(SELECT (u.rid << 12) | p_space FROM unnest(rids) u (rid)))
    ORDER BY j.id FOR NO KEY UPDATE;
  SELECT array_agg(z.rid) FILTER (WHERE z.moved), count(*) FILTER (WHERE z.dead),
    array_agg(z.rid) FILTER (WHERE z.arms), array_agg(z.hash) FILTER (WHERE z.arms),
    array_agg(z.priority) FILTER (WHERE z.arms),
    array_agg(z.job) FILTER (WHERE NOT z.arms AND z.raises),
    array_agg(z.priority) FILTER (WHERE NOT z.arms AND z.raises), array_agg(z.id) FILTER (WHERE z.theirs),
    array_agg(z.id) FILTER (WHERE z.moved)
  INTO moved, back, armed, armed_hashes, armed_priorities, raised, raised_priorities, theirs, moved_ids
  FROM (
    SELECT x.rid, u.id, u.hash, u.priority, j.id AS job, x.valid_to IS NOT NULL AS dead,
      x.valid_to IS NOT NULL OR x.hash <> u.hash AS moved,
      (x.valid_to IS NOT NULL OR x.hash <> u.hash)
        AND NOT (coalesce(v.hash = u.hash, false) AND j.status IS DISTINCT FROM 0) AS arms,
      coalesce(j.status = 0 AND u.priority > j.priority, false) AS raises,
      x.tenant IS DISTINCT FROM u.tenant AND x.hash <> '' AS theirs
    FROM unnest(p_ids, p_hashes, p_tenants, p_priorities) u (id, hash, tenant, priority)
    JOIN record x ON x.collection = p_collection AND x.id = u.id
    LEFT JOIN job j ON j.id = (x.rid << 12) | p_space
    LEFT JOIN stored(p_space, rids) v ON v.record = x.rid) z;
  IF theirs IS NOT NULL THEN  -- it came between the check and the lock: undo all of it
    RAISE EXCEPTION USING ERRCODE = 'EQ001', MESSAGE = to_json(theirs)::text;
  END IF;
  UPDATE record x SET hash = u.hash, text = u.text, attributes = coalesce(u.attributes, '{}'), tenant = u.tenant,
    updated_at = p_now, valid_to = NULL, words = indexed_words(language, p_collection, u.text)
  FROM unnest(p_ids, p_hashes, p_texts, p_attributes, p_tenants) u (id, hash, text, attributes, tenant)
  WHERE x.collection = p_collection AND x.id = u.id
    AND (x.valid_to IS NOT NULL OR x.hash <> u.hash OR x.attributes <> coalesce(u.attributes, '{}'));
  IF back > 0 THEN
    INSERT INTO tally (collection, records) VALUES (p_collection, back);
  END IF;
  IF p_elsewhere THEN
    DELETE FROM given_up g WHERE g.collection = p_collection AND g.record = ANY (moved);
  ELSIF armed IS NOT NULL THEN
    PERFORM arm(p_collection, p_space, armed, armed_hashes, armed_priorities, false, p_now);
  END IF;
  IF moved IS NOT NULL THEN
    PERFORM note_missing(p_collection, p_space, moved);
  END IF;
  IF raised IS NOT NULL THEN
    PERFORM raise_priority(raised, raised_priorities);
  END IF;
  RETURN moved_ids;
END
$$;

-- Say of records that were written which jobs they have, and how they stand.
CREATE FUNCTION read_receipts(answer receipts, p_collection int, p_ids text[], p_places int[]) RETURNS receipts
LANGUAGE plpgsql AS $$
BEGIN
  SELECT array_agg(u.place), array_agg(j.id), array_agg(j.serial),
    array_agg(CASE WHEN m.record IS NULL THEN 1 WHEN g.hash = x.hash THEN 2 ELSE 0 END)
  INTO answer.places, answer.jobs, answer.serials, answer.statuses
  FROM unnest(p_ids, p_places) u (id, place) JOIN record x ON x.collection = p_collection AND x.id = u.id
  LEFT JOIN job j ON j.id = (x.rid << 12) | answer.space
  LEFT JOIN missing m ON m.collection = p_collection AND m.record = x.rid
  LEFT JOIN given_up g ON g.collection = p_collection AND g.record = x.rid;
  RETURN answer;
END
$$;

-- Write records and arm their jobs, all or none, in one call. A caller that knows an older collection writes nothing. A
-- hash must be its text's: vectors are reused by it, across collections.
CREATE FUNCTION put_rows(
  p_name text, p_collection int, p_revision int, p_places int[], p_ids text[], p_texts text[], p_hashes bytea[],
  p_attributes jsonb[], p_tenants text[], p_priorities smallint[], p_now timestamptz, p_notify boolean
) RETURNS receipts
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  answer receipts;
  moment timestamptz := moment_of(p_now);
  known text[];
  theirs text[];
  elsewhere boolean;  -- the jobs are in another database
  n record;
  e record;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(1701667441, p_collection);  -- the collection stays as it is until we commit
  SELECT c.space, k.holds = 'records' INTO answer.space, elsewhere FROM collection c CROSS JOIN control k
    WHERE c.name = p_name AND c.id = p_collection AND c.revision = p_revision;
  IF NOT FOUND THEN
    answer.problem := 'changed';
    RETURN answer;
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM require_current(p_collection, p_ids);
  END IF;
  IF EXISTS (SELECT FROM unnest(p_texts, p_hashes) u (text, hash)
    WHERE sha256(convert_to(u.text, 'UTF8')) IS DISTINCT FROM u.hash) THEN
    RAISE data_exception USING MESSAGE = 'a hash is not the SHA-256 of its text';
  END IF;
  SELECT array_agg(x.id) INTO known FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids);
  IF known IS NULL THEN
    answer.fresh := insert_records(p_collection, answer.space, p_ids, p_texts, p_hashes, p_attributes, p_tenants,
      p_priorities, p_places, elsewhere, moment);
    IF array_position(answer.fresh, NULL) IS NULL THEN
      IF p_notify THEN
        PERFORM pg_notify('embedq', '');
      END IF;
      RETURN answer;
    END IF;
  ELSE
    SELECT array_agg(u.id) INTO theirs FROM unnest(p_ids, p_tenants) u (id, tenant)
      JOIN record x ON x.collection = p_collection AND x.id = u.id
      WHERE x.tenant IS DISTINCT FROM u.tenant AND x.hash <> '';
    IF theirs IS NOT NULL THEN
      answer.problem := to_json(theirs)::text;
      RETURN answer;
    END IF;
    SELECT array_agg(u.id) AS ids, array_agg(u.text) AS texts, array_agg(u.hash) AS hashes,
      array_agg(u.attributes) AS attributes, array_agg(u.tenant) AS tenants, array_agg(u.priority) AS priorities,
      array_agg(u.place) AS places INTO n
    FROM unnest(p_ids, p_texts, p_hashes, p_attributes, p_tenants, p_priorities, p_places)
      u (id, text, hash, attributes, tenant, priority, place)
    WHERE NOT EXISTS (SELECT FROM record x WHERE x.collection = p_collection AND x.id = u.id);
    IF n.ids IS NOT NULL THEN
      PERFORM insert_records(p_collection, answer.space, n.ids, n.texts, n.hashes, n.attributes, n.tenants,
        n.priorities, n.places, elsewhere, moment);
      answer.moved := n.ids;
    END IF;
  END IF;
  -- mostly nothing differs, and then nothing is locked
  SELECT array_agg(u.id) AS ids, array_agg(u.text) AS texts, array_agg(u.hash) AS hashes,
    array_agg(u.attributes) AS attributes, array_agg(u.tenant) AS tenants, array_agg(u.priority) AS priorities INTO e
  FROM unnest(p_ids, p_texts, p_hashes, p_attributes, p_tenants, p_priorities)
    u (id, text, hash, attributes, tenant, priority)
  JOIN record x ON x.collection = p_collection AND x.id = u.id
  LEFT JOIN job j ON j.id = (x.rid << 12) | answer.space
  WHERE x.valid_to IS NOT NULL OR x.hash <> u.hash OR x.attributes <> coalesce(u.attributes, '{}')
    OR x.tenant IS DISTINCT FROM u.tenant OR (j.status = 0 AND u.priority > j.priority);
  IF e.ids IS NOT NULL THEN
    answer.moved := answer.moved || update_records(p_collection, answer.space, e.ids, e.texts, e.hashes,
      e.attributes, e.tenants, e.priorities, elsewhere, moment);
  END IF;
  IF p_notify THEN
    PERFORM pg_notify('embedq', '');
  END IF;
  answer.fresh := NULL;
  RETURN read_receipts(answer, p_collection, p_ids, p_places);
END
$$;

-- Refuse to write records that a table says otherwise.
CREATE FUNCTION require_detached(p_collection int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM attachment a WHERE a.collection = p_collection) THEN
    RAISE EXCEPTION USING ERRCODE = 'EQ006', MESSAGE = (
      SELECT format('the records of %s are the rows of %s: write to that table', c.name, a.made_for)
      FROM collection c JOIN attachment a ON a.collection = c.id WHERE c.id = p_collection);
  END IF;
END
$$;

-- The same for callers: what they write is not the rows of a table.
CREATE FUNCTION put(
  p_name text, p_collection int, p_revision int, p_places int[], p_ids text[], p_texts text[], p_hashes bytea[],
  p_attributes jsonb[], p_tenants text[], p_priorities smallint[], p_now timestamptz, p_notify boolean
) RETURNS receipts
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM collection c WHERE (c.id, c.name, c.revision) = (p_collection, p_name, p_revision)) THEN
    PERFORM require_detached(p_collection);  -- who knows an older collection gets to know below
  END IF;
  IF EXISTS (SELECT FROM unnest(p_attributes) u (a) WHERE jsonb_typeof(u.a) <> 'object') THEN
    RAISE data_exception USING MESSAGE = 'attributes are no object';
  ELSIF EXISTS (SELECT FROM unnest(p_attributes) u (a)  -- less than 800 bytes cannot be so deep, and are not looked at
    WHERE CASE WHEN pg_column_size(u.a) > 800 THEN jsonb_path_exists(u.a, '$.**{101}') END) THEN
    RAISE data_exception USING MESSAGE = 'attributes are nested deeper than 100';
  END IF;
  RETURN put_rows(p_name, p_collection, p_revision, p_places, p_ids, p_texts, p_hashes, p_attributes, p_tenants,
    p_priorities, p_now, p_notify);
END
$$;

-- Let a transaction fail that sees less than was committed: another collection or other records than those it would act
-- on. The locks that show it are given up at once.
CREATE FUNCTION require_current(p_collection int, p_ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM collection c WHERE c.id = p_collection FOR SHARE;
  PERFORM FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids) ORDER BY x.rid FOR SHARE;
  RAISE SQLSTATE 'EQ004';
EXCEPTION WHEN SQLSTATE 'EQ004' THEN
  NULL;
WHEN serialization_failure THEN
  RAISE serialization_failure USING MESSAGE = 'the collection or its records have changed since this transaction began',
    HINT = 'Repeat the transaction.';
END
$$;

-- Say whether a caller's request is meant for this database: its connection may be to another.
CREATE FUNCTION is_here(p_request jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN p_request ->> 'identity' IS NULL
    OR EXISTS (SELECT FROM control c WHERE c.identity::text = p_request ->> 'identity');
END
$$;

-- The same for callers whose driver knows no arrays: everything is one JSON text, hashes in hex, and so is the answer.
CREATE FUNCTION put_json(p_request text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  request jsonb := p_request::jsonb;
  answer receipts;
  r record;
BEGIN
  SELECT array_agg(x.place) AS places, array_agg(x.id) AS ids, array_agg(x.text) AS texts,
    array_agg(decode(x.hash, 'hex')) AS hashes, array_agg(x.attributes) AS attributes, array_agg(x.tenant) AS tenants,
    array_agg(x.priority) AS priorities INTO r
  FROM jsonb_to_recordset(request -> 'records')
    x (place int, id text, text text, hash text, attributes jsonb, tenant text, priority smallint);
  answer := put(CASE WHEN is_here(request) THEN request ->> 'name' END, (request ->> 'collection')::int,
    (request ->> 'revision')::int, r.places, r.ids, r.texts, r.hashes, r.attributes, r.tenants,
    r.priorities, (request ->> 'now')::timestamptz, true);
  RETURN to_json(answer)::text;
END
$$;
