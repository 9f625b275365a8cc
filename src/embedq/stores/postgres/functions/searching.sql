-- Finding records by their vectors.

-- Write the conditions on a record `x` of collection $1, narrowed to tenant $2 and by a filter.
CREATE FUNCTION matching(p_tenant text, p_filter jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT concat_ws(' AND ', 'x.collection = $1 AND x.valid_to IS NULL',
    CASE WHEN p_tenant IS NOT NULL THEN 'x.tenant = $2' END, '(' || conditions(p_filter) || ')')
$$;

-- Write the statement that finds the nearest of the matching records: $3 the vector, $4 how many. A vector of zeros has
-- no direction: its cosine counts as 0. By an index, records are looked up one by one as it offers their vectors, and
-- OFFSET keeps the planner from another way; without it, in an order that no index can serve.
CREATE FUNCTION nearest_statement(p_space int, p_dimensions int, p_by_index boolean, p_bare boolean, p_matching text)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  -- the extension may live in any schema, and ours are the only ones that are looked into
  home text := (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector');
  kind text := CASE WHEN p_dimensions <= 2000 THEN 'vector' ELSE 'halfvec' END;
  distance text := CASE
    WHEN p_by_index THEN
      format('(v.embedding::%1$s.%2$s(%3$s)) OPERATOR(%1$s.<=>) $3::%1$s.%2$s', home, kind, p_dimensions)
    ELSE format('(v.embedding OPERATOR(%s.<=>) $3) + 0.0', home) END;
BEGIN
  RETURN format('SELECT x.id, v.hash <> x.hash, coalesce(nullif(1 - (%2$s), ''NaN''), 0)::float8, %3$s, %4$s
    FROM embedq.vector_%1$s v CROSS JOIN LATERAL (
      SELECT x.* FROM embedq.record x WHERE x.rid = v.record AND %5$s %6$s) x
    WHERE v.collection = $1 ORDER BY %2$s LIMIT $4',
    p_space, distance, CASE WHEN p_bare THEN ''''', ''{}''::jsonb' ELSE 'x.text, x.attributes' END,
    (NOT p_by_index)::text, p_matching, CASE WHEN p_by_index THEN 'OFFSET 0' END);
END
$$;

-- Say whether so few records match that looking at each of them is faster than the index, which offers vectors in the
-- order of their distance, whether they match or not. Of n vectors it has to offer n / matches for each hit, and to
-- offer one takes about four times as long as to look at one: the two ways cost the same at twice the root of hits * n.
CREATE FUNCTION are_few(p_collection int, p_space int, p_k int, p_tenant text, p_filter jsonb, p_matching text)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  most bigint := (SELECT 2 * sqrt(p_k * greatest(t.reltuples, 1)) FROM pg_class t
    WHERE t.oid = to_regclass(format('embedq.vector_%s', p_space)));
  matches bigint := (SELECT coalesce(sum(t.records), 0) FROM tally t WHERE t.collection = p_collection);
BEGIN
  IF matches > most AND (p_tenant IS NOT NULL OR p_filter IS NOT NULL) THEN
    EXECUTE format('SELECT count(*) FROM (SELECT FROM embedq.record x WHERE %s LIMIT %s) n', p_matching, most + 1)
      INTO matches USING p_collection, p_tenant;
  END IF;
  RETURN matches <= most;
END
$$;

-- The nearest records of a collection by cosine, in one call: nothing of it can change meanwhile. The first row says of
-- which space they are, none if there is no such collection, and what the rows of an attached table can be filtered
-- by. Hits follow if the asked vector is as long as its vectors: those of the index, and if they are too few, since a
-- filter may have left nearly nothing of what it offers, all over again by a look at everything that matches.
CREATE FUNCTION nearest(
  p_name text, p_vector vector, p_length int, p_k int, p_tenant text, p_filter jsonb, p_bare boolean
) RETURNS TABLE (
  provider text, model text, asked int, version int, dimensions int, filterable text[],
  id text, stale boolean, score float8, words text, attributes jsonb, exact boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  c record;
  conditions text := matching(p_tenant, p_filter);
  hits int;
BEGIN
  SELECT k.id, s AS home, to_regclass(format('embedq.vector_%s', s.id)) IS NOT NULL AS stored,
      coalesce(i.indisvalid, false) AS indexed, a.attributes AS filterable
    INTO c FROM collection k JOIN space s ON s.id = k.space LEFT JOIN attachment a ON a.collection = k.id
    LEFT JOIN pg_index i ON i.indexrelid = to_regclass(format('embedq.vector_%s_nearest', s.id)) WHERE k.name = p_name;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT (c.home).provider, (c.home).model, (c.home).asked, (c.home).version, (c.home).dimensions,
    c.filterable, NULL::text, NULL::boolean, NULL::float8, NULL::text, NULL::jsonb, NULL::boolean;
  IF NOT c.stored OR (c.home).dimensions <> p_length THEN
    RETURN;
  END IF;
  c.indexed := c.indexed AND NOT are_few(c.id, (c.home).id, p_k, p_tenant, p_filter, conditions);
  FOR by_index IN REVERSE c.indexed::int..0 LOOP
    PERFORM set_config('hnsw.iterative_scan', 'strict_order', true),
      set_config('enable_sort', CASE by_index WHEN 1 THEN 'off' ELSE 'on' END, true);
    RETURN QUERY EXECUTE
      format('SELECT NULL::text, NULL::text, NULL::int, NULL::int, NULL::int, NULL::text[], n.* FROM (%s) n',
        nearest_statement((c.home).id, p_length, by_index = 1, p_bare, conditions))
      USING c.id, p_tenant, p_vector, p_k;
    GET DIAGNOSTICS hits = ROW_COUNT;
    EXIT WHEN hits >= p_k;
  END LOOP;
END
$$;
