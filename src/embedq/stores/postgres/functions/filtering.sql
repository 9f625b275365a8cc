-- Filters of records by their attributes. What a filter means is said by `policy/matching.py`.

-- Read a moment as `policy/instants.py` does, in UTC unless it has an offset; NULL if it is none.
CREATE FUNCTION instant_in(p_text text) RETURNS timestamptz LANGUAGE sql STABLE
RETURN (SELECT CASE WHEN pg_input_is_valid(w.moment, 'timestamptz') THEN w.moment::timestamptz END FROM (
  SELECT regexp_replace(p_text, '(\.[0-9]{6})[0-9]+', '\1')
    || CASE WHEN p_text ~ ':.*(Z|[+-][0-9:]+)\Z' THEN '' ELSE ' UTC' END AS moment
  WHERE p_text ~ ('\A[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?'
    || '(Z|[+-](0[0-9]|1[0-4]):?[0-5][0-9])?)?\Z')) w);

-- Say whether attributes have, at a path, a moment of a range.
CREATE FUNCTION has_instant(p_attributes jsonb, p_path jsonpath, p_range tstzrange) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM jsonb_path_query(p_attributes, p_path) v WHERE instant_in(v #>> '{}') <@ p_range);

-- Write the conditions on a record `x` that a filter lists, with the words between them. Values are literals, so that
-- the planner knows how rare they are; any other word is left out, since whoever may search could have sent it, and
-- parentheses that do not match allow nothing.
CREATE FUNCTION conditions(p_filter jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT CASE WHEN min(f.depth) >= 0 AND sum(f.step) = 0 THEN string_agg(CASE
    WHEN f.one ? 'range' THEN
      format('embedq.has_instant(x.attributes, %L, %L)', f.one ->> 'path', f.one ->> 'range')
    WHEN f.one ? 'path' THEN format('x.attributes @? %L', f.one ->> 'path')
    ELSE (SELECT w.word FROM unnest(ARRAY['AND', 'OR', 'NOT', '(', ')', 'x.attributes <> ''{}''']) w (word)
      WHERE w.word = f.one #>> '{}') END, ' ' ORDER BY f.place) WHEN count(*) > 0 THEN 'false' END
  FROM (SELECT e.one, e.place, d.step, sum(d.step) OVER (ORDER BY e.place) AS depth
    FROM jsonb_array_elements(p_filter) WITH ORDINALITY e (one, place)
    CROSS JOIN LATERAL (SELECT CASE e.one #>> '{}' WHEN '(' THEN 1 WHEN ')' THEN -1 ELSE 0 END AS step) d) f
$$;
