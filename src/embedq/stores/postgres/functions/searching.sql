-- Finding records by their vectors.

-- Write the statement that finds the nearest records of a space: $1 the vector, $2 the collection, $3 how many, $4 the
-- tenant, $5 the filter: a list per attribute, of what the attributes must hold one of. A vector of zeros has no
-- direction: its cosine counts as 0. Without an index, in an order that none can serve.
CREATE FUNCTION nearest_statement(
  p_space int, p_dimensions int, p_by_index boolean, p_bare boolean, p_tenant text, p_filter jsonb
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  -- the extension may live in any schema, and ours are the only ones that are looked into
  home text := (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector');
  kind text := CASE WHEN p_dimensions <= 2000 THEN 'vector' ELSE 'halfvec' END;
  distance text := CASE
    WHEN p_by_index THEN
      format('(v.embedding::%1$s.%2$s(%3$s)) OPERATOR(%1$s.<=>) $1::%1$s.%2$s', home, kind, p_dimensions)
    ELSE format('(v.embedding OPERATOR(%s.<=>) $1) + 0.0', home) END;
  filters text := (SELECT string_agg(
    format('AND x.attributes @> ANY (ARRAY(SELECT jsonb_array_elements($5 -> %s)))', n), ' ')
    FROM generate_series(0, jsonb_array_length(p_filter) - 1) n);
BEGIN
  RETURN format('SELECT x.id, v.hash <> x.hash, coalesce(nullif(1 - (%2$s), ''NaN''), 0)::float8, %3$s, %4$s
    FROM embedq.vector_%1$s v JOIN embedq.record x ON x.rid = v.record
    WHERE v.collection = $2 AND x.valid_to IS NULL %5$s %6$s ORDER BY %2$s LIMIT $3',
    p_space, distance, CASE WHEN p_bare THEN ''''', ''{}''::jsonb' ELSE 'x.text, x.attributes' END,
    (NOT p_by_index)::text,
    CASE WHEN p_tenant IS NOT NULL THEN 'AND x.tenant = $4' END, filters);
END
$$;

-- The nearest records of a collection by cosine, in one call: nothing of it can change meanwhile. The first row says of
-- which space they are, none if there is no such collection. Hits follow if the asked vector is as long as its vectors:
-- those of the index, and if they are too few, since a filter may have left nearly nothing of what it offers, all over
-- again by a look at everything.
CREATE FUNCTION nearest(
  p_name text, p_vector vector, p_length int, p_k int, p_tenant text, p_filter jsonb, p_bare boolean
) RETURNS TABLE (
  provider text, model text, asked int, version int, dimensions int,
  id text, stale boolean, score float8, words text, attributes jsonb, exact boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  c record;
  statement text;
  hits int;
BEGIN
  SELECT k.id, s AS home, to_regclass(format('embedq.vector_%s', s.id)) IS NOT NULL AS stored,
      coalesce(i.indisvalid, false) AS indexed
    INTO c FROM collection k JOIN space s ON s.id = k.space
    LEFT JOIN pg_index i ON i.indexrelid = to_regclass(format('embedq.vector_%s_nearest', s.id)) WHERE k.name = p_name;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT (c.home).provider, (c.home).model, (c.home).asked, (c.home).version, (c.home).dimensions,
    NULL::text, NULL::boolean, NULL::float8, NULL::text, NULL::jsonb, NULL::boolean;
  IF NOT c.stored OR (c.home).dimensions <> p_length THEN
    RETURN;
  END IF;
  FOR by_index IN REVERSE c.indexed::int..0 LOOP
    statement := nearest_statement((c.home).id, p_length, by_index = 1, p_bare, p_tenant, p_filter);
    PERFORM set_config('hnsw.iterative_scan', 'strict_order', true),
      set_config('enable_sort', CASE by_index WHEN 1 THEN 'off' ELSE 'on' END, true);
    RETURN QUERY EXECUTE
      format('SELECT NULL::text, NULL::text, NULL::int, NULL::int, NULL::int, n.* FROM (%s) n', statement)
      USING p_vector, c.id, p_k, p_tenant, p_filter;
    GET DIAGNOSTICS hits = ROW_COUNT;
    EXIT WHEN hits >= p_k;
  END LOOP;
END
$$;
