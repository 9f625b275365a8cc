-- Take records, which are locked and live, out of search.
CREATE FUNCTION hide(p_collection int, p_space int, p_records bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  hidden int;
  found_now int;
BEGIN
  UPDATE record SET valid_to = p_now WHERE rid = ANY (p_records) AND valid_to IS NULL;
  GET DIAGNOSTICS hidden = ROW_COUNT;
  IF to_regclass(format('embedq.vector_%s', p_space)) IS NOT NULL THEN
    EXECUTE format('DELETE FROM vector_%s WHERE record = ANY ($1)', p_space) USING p_records;
  END IF;
  DELETE FROM missing m WHERE m.collection = p_collection AND m.record = ANY (p_records);
  GET DIAGNOSTICS found_now = ROW_COUNT;
  INSERT INTO tally (collection, records, missing) VALUES (p_collection, -hidden, -found_now);
END
$$;

-- Draw 62 random bits: those of a UUID of version 4 that its variant leaves. `random` may have been seeded by a caller.
CREATE FUNCTION new_mark() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT ('x' || encode(substr(uuid_send(gen_random_uuid()), 9), 'hex'))::bit(64)::bigint & ((1::bigint << 62) - 1)
$$;

-- Let a transaction fail whose snapshot is too old to see what is kept of these texts. An insert meets such a row; what
-- it inserts where there is none is given up at once.
CREATE FUNCTION require_seen(p_hashes bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO spare (space, hash, paid_at, embedding)
  SELECT s.id, u.hash, now(), '[0]' FROM space s CROSS JOIN unnest(p_hashes) u (hash) ORDER BY 1, 2
  ON CONFLICT DO NOTHING;
  RAISE SQLSTATE 'EQ004';
EXCEPTION WHEN SQLSTATE 'EQ004' THEN
  NULL;
END
$$;

-- Delete records and cancel their jobs; a dead letter that is there stays. With p_purge text and vector go permanently,
-- and so does what a lease of before still brings: it has read another mark, or none. Answer with the records that were
-- there; to a tenant, those of others are not.
CREATE FUNCTION delete_record_rows(
  p_collection int, p_space int, p_ids text[], p_purge boolean, p_now timestamptz, p_tenant text
) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  moment timestamptz := moment_of(p_now);
  ids text[];
  rids bigint[];
  live bigint[];
  hashes bytea[];
  opened bigint[];
  mark bigint := new_mark();
BEGIN
  IF p_purge THEN  -- from here on no transaction keeps a vector of theirs, see `keep_spare`
    PERFORM FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids) ORDER BY x.rid FOR UPDATE;
  END IF;
  SELECT array_agg(z.id), array_agg(z.rid), array_agg(z.rid) FILTER (WHERE z.valid_to IS NULL), array_agg(z.hash)
  INTO ids, rids, live, hashes FROM (
    SELECT x.id, x.rid, x.valid_to, x.hash FROM record x
    WHERE x.collection = p_collection AND x.id = ANY (p_ids) AND (x.valid_to IS NULL OR (p_purge AND x.hash <> ''))
      AND (p_tenant IS NULL OR x.tenant = p_tenant)
    ORDER BY x.rid FOR NO KEY UPDATE) z;
  IF rids IS NULL THEN
    RETURN '{}';
  END IF;
  SELECT array_agg(z.id) FILTER (WHERE z.status = 0) INTO opened FROM (
    SELECT j.id, j.status FROM job j WHERE j.id = ANY (ARRAY(SELECT (u.rid << 12) | p_space FROM unnest(rids) u (rid)))
    ORDER BY j.id FOR NO KEY UPDATE) z;
  IF live IS NOT NULL THEN
    PERFORM hide(p_collection, p_space, live, moment);
  END IF;
  IF opened IS NOT NULL THEN
    PERFORM withdraw(opened, 'record_deleted', moment);
  END IF;
  IF p_purge THEN
    UPDATE record SET text = '', hash = '', words = '', attributes = '{}', tenant = NULL, updated_at = moment,
      erased = mark WHERE rid = ANY (rids);
    DELETE FROM given_up g WHERE g.collection = p_collection AND g.record = ANY (rids);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      PERFORM require_seen(hashes);
    END IF;
    DELETE FROM spare s WHERE s.hash = ANY (hashes);
  END IF;
  RETURN ids;
END
$$;

-- The same for callers: what they delete is not the rows of a table.
CREATE FUNCTION delete_records(
  p_collection int, p_space int, p_ids text[], p_purge boolean, p_now timestamptz, p_tenant text
) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  PERFORM require_detached(p_collection);
  RETURN delete_record_rows(p_collection, (SELECT c.space FROM collection c WHERE c.id = p_collection), p_ids, p_purge,
    p_now, p_tenant);
END
$$;

-- The same for callers whose driver knows no arrays: one JSON text, and so is the answer; null if there is no such
-- collection here.
CREATE FUNCTION delete_json(p_request text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  request jsonb := p_request::jsonb;
  gone text[];
BEGIN
  SELECT delete_records(c.id, c.space, ARRAY(SELECT jsonb_array_elements_text(request -> 'ids')),
    (request ->> 'purge')::boolean, (request ->> 'now')::timestamptz, request ->> 'tenant') INTO gone
  FROM collection c WHERE c.id = (request ->> 'collection')::int AND c.name = request ->> 'name' AND is_here(request);
  RETURN CASE WHEN FOUND THEN to_json(coalesce(gone, '{}'))::text ELSE 'null' END;
END
$$;

-- Remove some records of a dropped collection with their jobs and vectors; 0 when none is left.
CREATE FUNCTION remove_dropped(p_limit int, p_now timestamptz) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  moment timestamptz := moment_of(p_now);
  c collection;
  rids bigint[];
  keys bigint[];
  opened bigint[];
BEGIN
  SELECT * INTO c FROM collection d
    WHERE d.name IS NULL AND NOT EXISTS (SELECT FROM attachment a WHERE a.collection = d.id)
    ORDER BY d.id LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  SELECT array_agg(z.rid) INTO rids FROM (
    SELECT x.rid FROM record x WHERE x.collection = c.id ORDER BY x.id LIMIT p_limit) z;
  IF rids IS NULL THEN
    DELETE FROM tally t WHERE t.collection = c.id;
    DELETE FROM given_up g WHERE g.collection = c.id;
    DELETE FROM collection WHERE id = c.id;
    RETURN 1;
  END IF;
  PERFORM FROM record x WHERE x.rid = ANY (rids) ORDER BY x.rid FOR UPDATE;
  keys := ARRAY(SELECT (u.rid << 12) | c.space FROM unnest(rids) u (rid));
  SELECT array_agg(z.id) FILTER (WHERE z.status = 0) INTO opened FROM (
    SELECT j.id, j.status FROM job j WHERE j.id = ANY (keys) ORDER BY j.id FOR NO KEY UPDATE) z;
  PERFORM hide(c.id, c.space, rids, moment);
  IF opened IS NOT NULL THEN
    PERFORM withdraw(opened, 'record_deleted', moment);
  END IF;
  DELETE FROM job WHERE id = ANY (keys);
  DELETE FROM record WHERE rid = ANY (rids);
  RETURN cardinality(rids);
END
$$;
