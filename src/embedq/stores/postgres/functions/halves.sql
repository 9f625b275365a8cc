-- What a database does that holds records alone, or jobs alone.

-- Refuse what is for a database that holds records alone, or jobs alone: elsewhere it would go around the rules of a
-- job.
CREATE FUNCTION require_holds(p_what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM control c WHERE c.holds = p_what) THEN
    RAISE insufficient_privilege USING MESSAGE = format('this database does not hold %s alone', p_what);
  END IF;
END
$$;

-- Store vectors of one collection's records as far as these are live with the texts that were embedded, and keep the
-- others for reuse, unless their texts were removed permanently since they were read (`p_marks`), or are kept already:
-- an insert would wait for a transaction that is just removing them. Answer per record: 0 gone, 1 it has another text,
-- 2 stored, NULL if another transaction holds it just now. No id comes twice.
CREATE FUNCTION store_records(
  p_collection int, p_space int, p_ids text[], p_hashes bytea[], p_truncated boolean[], p_vectors vector[],
  p_marks bigint[], p_now timestamptz
) RETURNS int[]
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  held bigint[];
  f record;
BEGIN
  PERFORM require_read_committed();
  PERFORM require_holds('records');
  held := ARRAY(SELECT x.rid FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids)
    ORDER BY x.rid FOR NO KEY UPDATE SKIP LOCKED);
  SELECT array_agg(x.rid) AS rids, array_agg(x.collection) AS homes, array_agg(x.hash) AS hashes,
    array_agg(u.truncated) AS truncated, array_agg(u.embedding) AS vectors INTO f
  FROM unnest(p_ids, p_hashes, p_truncated, p_vectors) u (id, hash, truncated, embedding)
  JOIN record x ON x.collection = p_collection AND x.id = u.id
  WHERE x.rid = ANY (held) AND x.valid_to IS NULL AND x.hash = u.hash;
  IF f.rids IS NOT NULL THEN
    EXECUTE format('SELECT store_%s($1, $2, $3, $4, $5)', p_space)
      USING f.rids, f.homes, f.hashes, f.truncated, f.vectors;
    PERFORM note_missing(p_collection, p_space, f.rids);
    DELETE FROM given_up g WHERE g.collection = p_collection AND g.record = ANY (f.rids);
  END IF;
  WITH unchanged AS MATERIALIZED (  -- a transaction that removes a record permanently holds all of it
    SELECT x.id, x.rid, x.erased FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids)
      AND x.rid <> ALL (coalesce(f.rids, '{}')) ORDER BY x.rid FOR KEY SHARE SKIP LOCKED)
  INSERT INTO spare (space, hash, paid_at, embedding)
  SELECT DISTINCT ON (u.hash) p_space, u.hash, coalesce(p_now, clock_timestamp()), u.embedding
  FROM unnest(p_ids, p_hashes, p_vectors, p_marks) u (id, hash, embedding, mark) JOIN unchanged x ON x.id = u.id
  WHERE coalesce(x.erased, -x.rid) = u.mark
    AND NOT EXISTS (SELECT FROM spare s WHERE (s.space, s.hash) = (p_space, u.hash))
  ON CONFLICT DO NOTHING;
  RETURN ARRAY(SELECT CASE WHEN x.rid IS NULL THEN 0 WHEN x.rid <> ALL (held) THEN NULL
      WHEN x.valid_to IS NOT NULL THEN 0 WHEN x.hash = u.hash THEN 2 ELSE 1 END
    FROM unnest(p_ids, p_hashes) WITH ORDINALITY u (id, hash, n)
    LEFT JOIN record x ON x.collection = p_collection AND x.id = u.id ORDER BY u.n);
END
$$;

-- Note which texts are given up on, of records that still have them.
CREATE FUNCTION give_up_texts(p_collection int, p_ids text[], p_hashes bytea[], p_reasons text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  PERFORM require_holds('records');
  INSERT INTO given_up (collection, record, hash, reason)
  SELECT DISTINCT ON (x.rid) x.collection, x.rid, u.hash, u.reason
  FROM unnest(p_ids, p_hashes, p_reasons) u (id, hash, reason)
  JOIN record x ON x.collection = p_collection AND x.id = u.id AND x.hash = u.hash AND x.valid_to IS NULL
  ON CONFLICT (collection, record) DO UPDATE SET hash = excluded.hash, reason = excluded.reason;
END
$$;

-- Forget what was given up on.
CREATE FUNCTION try_again(p_collection int, p_ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  PERFORM require_holds('records');
  DELETE FROM given_up g USING record x
  WHERE x.collection = p_collection AND x.id = ANY (p_ids) AND g.collection = p_collection AND g.record = x.rid;
END
$$;

-- Note what the corpus says of records: they are live, and this is the hash of their texts. Lock them and their jobs,
-- and say how these stand, in the order of the arguments. Ids come sorted, each once, with their places in the request:
-- numbers follow these, so that older places in it go first.
CREATE FUNCTION name_records(
  p_collection int, p_space int, p_ids text[], p_places int[], p_hashes bytea[], p_tenants text[], p_now timestamptz
) RETURNS TABLE (rid bigint, version bigint, job bigint, job_version bigint, serial bigint, status smallint,
  reason text, hash bytea, priority smallint)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz := moment_of(p_now);
  numbers bigint[] := ARRAY(SELECT nextval('record_rid') FROM generate_series(1, cardinality(p_ids)));
BEGIN
  PERFORM require_read_committed();
  PERFORM require_holds('jobs');
  PERFORM FROM record x WHERE x.collection = p_collection AND x.id = ANY (p_ids) ORDER BY x.rid FOR NO KEY UPDATE;
  INSERT INTO record AS x (rid, collection, id, hash, text, attributes, tenant, created_at, updated_at)
  SELECT numbers[u.rank], p_collection, u.id, u.hash, '', '{}', u.tenant, moment, moment FROM (
    SELECT z.*, rank() OVER (ORDER BY z.place) AS rank
    FROM unnest(p_ids, p_places, p_hashes, p_tenants) WITH ORDINALITY z (id, place, hash, tenant, n)) u ORDER BY u.n
  ON CONFLICT (collection, id) DO UPDATE SET hash = excluded.hash, tenant = excluded.tenant, valid_to = NULL
  WHERE (x.hash, x.valid_to) IS DISTINCT FROM (excluded.hash, NULL) OR x.tenant IS DISTINCT FROM excluded.tenant;
  PERFORM FROM job j WHERE j.id = ANY (ARRAY(SELECT (x.rid << 12) | p_space FROM record x
      WHERE x.collection = p_collection AND x.id = ANY (p_ids))) ORDER BY j.id FOR NO KEY UPDATE;
  RETURN QUERY SELECT x.rid, x.xmin::text::bigint, j.id, j.xmin::text::bigint, j.serial, j.status, j.reason, j.hash,
      j.priority
    FROM unnest(p_ids) WITH ORDINALITY u (id, n) JOIN record x ON x.collection = p_collection AND x.id = u.id
    LEFT JOIN job j ON j.id = (x.rid << 12) | p_space ORDER BY u.n;
END
$$;

-- Note the hash of the text that the corpus has now for a job's record, unless the record is another tenant's by now.
-- Its row stays locked: whose it is does not change before the job is cancelled.
CREATE FUNCTION note_text(p_job bigint, p_serial bigint, p_hash bytea, p_tenant text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  PERFORM require_holds('jobs');
  UPDATE record x SET hash = p_hash WHERE x.rid = p_job >> 12 AND (p_tenant IS NULL OR x.tenant = p_tenant)
    AND EXISTS (SELECT FROM job j WHERE j.id = p_job AND j.serial = p_serial);
END
$$;
