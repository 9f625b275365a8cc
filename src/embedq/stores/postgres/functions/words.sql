-- Finding records by their words: BM25 by the statistics of one collection.

-- Make what the index holds of a text. Words are split where a query's are, since the parser would take "and/or" or an
-- address for one word. A mark tells the collection's records from others that have the same words.
CREATE FUNCTION indexed_words(p_language text, p_collection int, p_text text) RETURNS tsvector
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT to_tsvector(('pg_catalog.' || p_language)::regconfig,
    left(translate(p_text, '-./:@\#&=+~%*|<>', '                '), 100000))
    || array_to_tsvector(ARRAY['#' || p_collection])
$$;

-- Change the language of a collection, which nobody puts into meanwhile. Words that are there are indexed anew later,
-- and counted again.
CREATE FUNCTION set_language(p_name text, p_language text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  c collection;
BEGIN
  SELECT * INTO c FROM collection k WHERE k.name = p_name AND k.language <> p_language FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM record x WHERE x.collection = c.id AND x.valid_to IS NULL) THEN
    INSERT INTO reindex VALUES (c.id, '') ON CONFLICT (collection) DO UPDATE SET after = '';
    c.former := CASE WHEN c.language = ANY (c.former) THEN c.former ELSE c.former || c.language END;
  END IF;
  UPDATE collection SET language = p_language, former = c.former, counted = 0 WHERE id = c.id;
END
$$;

-- Index the words of a collection's next records anew, after its language was changed; answer with how many, 0 when
-- none is left. Whoever writes a record meanwhile has indexed it by the new language already. It waits shortly for who
-- holds one of them, since others may wait for those it holds itself.
CREATE FUNCTION reindex_words(p_limit int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '200ms' AS $$
DECLARE
  r reindex;
  language text;
  ids text[];
BEGIN
  SELECT * INTO r FROM reindex n ORDER BY n.collection LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  language := (SELECT c.language FROM collection c WHERE c.id = r.collection);
  ids := ARRAY(SELECT x.id FROM record x WHERE x.collection = r.collection AND x.id > r.after AND x.valid_to IS NULL
    ORDER BY x.id LIMIT p_limit);
  PERFORM FROM record x WHERE x.collection = r.collection AND x.id = ANY (ids) ORDER BY x.rid FOR NO KEY UPDATE;
  UPDATE record x SET words = indexed_words(language, x.collection, x.text)
    WHERE x.collection = r.collection AND x.id = ANY (ids) AND x.valid_to IS NULL;
  IF cardinality(ids) = p_limit THEN
    UPDATE reindex n SET after = ids[p_limit] WHERE n.collection = r.collection;
  ELSE
    DELETE FROM reindex n WHERE n.collection = r.collection;
    UPDATE collection c SET former = '{}' WHERE c.id = r.collection;
  END IF;
  RETURN greatest(cardinality(ids), 1);
END
$$;

-- Count the words of a collection that has changed by a fifth since it was last counted, in a sample of its records;
-- answer with how many were looked at, 0 when no collection has. Small ones are counted by each search.
CREATE FUNCTION count_words(p_sample int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  c record;
  every int;
  source text;
BEGIN
  SELECT k.id, t.records INTO c FROM collection k CROSS JOIN LATERAL (
      SELECT coalesce(sum(t.records), 0) AS records FROM tally t WHERE t.collection = k.id) t
    WHERE k.name IS NOT NULL AND NOT EXISTS (SELECT FROM reindex r WHERE r.collection = k.id)
      AND abs(t.records - k.counted) > 1000 + k.counted / 5
    ORDER BY k.id LIMIT 1 FOR NO KEY UPDATE OF k SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  every := 1 + c.records / p_sample;
  source := format('SELECT x.words FROM embedq.record x WHERE x.collection = %s AND x.valid_to IS NULL
    AND (hashint8(x.rid) & 2147483647) %% %s = 0', c.id, every);
  DELETE FROM lexeme l WHERE l.collection = c.id;
  INSERT INTO lexeme SELECT c.id, s.word, s.ndoc::bigint * every FROM ts_stat(source) s
    WHERE s.ndoc > 2 AND s.word <> '#' || c.id;
  EXECUTE format('UPDATE embedq.collection SET counted = $2,
      mean_words = coalesce((SELECT avg(length(s.words) - 1) FROM (%s) s), 0) WHERE id = $1', source)
    USING c.id, c.records;
  RETURN greatest(c.records / every, 1);
END
$$;

-- Say of a query's words how the index writes them, and in how many records of the collection each stands: as counted
-- last, or by counting up to a bound now. The planner must know the word, or it looks for it in every record.
CREATE FUNCTION frequencies(p_collection int, p_languages text[], p_words text[], p_counted boolean, p_marked boolean)
RETURNS TABLE (word text, records bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, embedq, pg_temp SET enable_seqscan = off AS $$
BEGIN
  FOR word IN SELECT DISTINCT l.lexeme FROM unnest(p_languages) s (language) CROSS JOIN unnest(p_words) w (word)
    CROSS JOIN LATERAL unnest(to_tsvector(('pg_catalog.' || s.language)::regconfig, w.word)) l
  LOOP
    IF p_counted THEN
      records := coalesce((
        SELECT l.records FROM lexeme l WHERE l.collection = p_collection AND l.word = frequencies.word), 1);
    ELSE
      EXECUTE 'SELECT count(*) FROM (SELECT FROM embedq.record x
          WHERE x.words @@ $1 AND x.collection = $2 AND x.valid_to IS NULL LIMIT 2000) n'
        INTO records USING any_of(ARRAY[word], p_collection, p_marked), p_collection;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;

-- Write a query for records with any of these words, and with the collection's mark: a word is quoted, so none of it is
-- syntax.
CREATE FUNCTION any_of(p_words text[], p_collection int, p_marked boolean) RETURNS tsquery
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT (format('(%s)', string_agg(
      '''' || replace(replace(w.word, chr(92), repeat(chr(92), 2)), '''', '''''') || '''', ' | '))
    || CASE WHEN p_marked THEN format(' & ''#%s''', p_collection) ELSE '' END)::tsquery
  FROM unnest(p_words) w (word)
$$;

-- Write the statement that ranks the matching records by BM25: $3 the query that finds them and $4, if not NULL, one
-- that finds others, $5 how many each finds at most; $6 the words, $7 their weights, $8 the query that is any of them,
-- $9 the mean length of a record; $10 how many are answered; $11 any of the rarest words. The best by a cheap measure
-- are ranked, since to read all words of a record is not cheap; it does not know how rare a word is, so the rarest
-- count twice.
CREATE FUNCTION ranking_statement(p_matching text, p_bare boolean) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT format('WITH found AS MATERIALIZED (
    SELECT x.rid, x.words FROM (
      (SELECT x.rid, x.words FROM embedq.record x WHERE x.words @@ $3 AND %1$s LIMIT $5) UNION ALL
      (SELECT x.rid, x.words FROM embedq.record x WHERE x.words @@ $4 AND NOT x.words @@ $3 AND %1$s LIMIT $5)) x
    ORDER BY ts_rank(x.words, $8, 1) + ts_rank(x.words, $11, 1) DESC, x.rid LIMIT greatest(400, 4 * $10)),
  mean AS (
    SELECT greatest(coalesce(nullif($9, 0), avg(length(f.words) - 1)), 1) AS words FROM found f),
  ranked AS (
    SELECT f.rid, count(*) AS held,
      sum(q.weight * t.n * 2.2 / (t.n + 1.2 * (0.25 + 0.75 * (length(f.words) - 1) / m.words))) AS score
    FROM found f CROSS JOIN mean m CROSS JOIN LATERAL unnest(f.words) u
    JOIN unnest($6, $7) q (word, weight) ON q.word = u.lexeme
    CROSS JOIN LATERAL (SELECT cardinality(u.positions)::float8 AS n) t
    GROUP BY f.rid ORDER BY score DESC, f.rid LIMIT $10)
  SELECT NULL::text[], x.id, r.score, CASE WHEN r.held = 1 AND cardinality($6) > 1 THEN 0
      ELSE r.score / (SELECT sum(w) FROM unnest($7) w) END, $4 IS NOT NULL, %2$s
  FROM ranked r JOIN embedq.record x ON x.rid = r.rid ORDER BY r.score DESC, r.rid',
    p_matching, CASE WHEN p_bare THEN ''''', ''{}''::jsonb' ELSE 'x.text, x.attributes' END)
$$;

-- The records of a collection that best fit some words. The first row says what the rows of an attached table can be
-- filtered by; none: there is no such collection. Where all words would find many, records are found by the rarest, and
-- ranked by all. If these find too few, all over again with some that the other words find.
CREATE FUNCTION by_words(p_name text, p_words text[], p_k int, p_tenant text, p_filter jsonb, p_bare boolean)
RETURNS TABLE (
  filterable text[], id text, score float8, share float8, exact boolean, words text, attributes jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp SET enable_seqscan = off AS $$
DECLARE
  c record;
  q record;
  hits int;
BEGIN
  SELECT k.id, k.language || k.former AS languages, r.collection IS NULL AS marked, k.counted > 0 AS counted,
      k.mean_words, a.attributes AS filterable, greatest(t.records, 1) AS records
    INTO c FROM collection k LEFT JOIN attachment a ON a.collection = k.id
    LEFT JOIN reindex r ON r.collection = k.id CROSS JOIN LATERAL (
      SELECT coalesce(sum(t.records), 0) AS records FROM tally t WHERE t.collection = k.id) t WHERE k.name = p_name;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT c.filterable, NULL::text, NULL::float8, NULL::float8, NULL::boolean, NULL::text, NULL::jsonb;
  SELECT array_agg(f.word ORDER BY f.records, f.word) AS words,
      greatest(count(*) FILTER (WHERE f.sum <= greatest(1000, 4 * p_k)), 1) AS rarest,
      array_agg(ln(1 + (greatest(c.records - f.records, 0) + 0.5) / (f.records + 0.5))::float8
        ORDER BY f.records, f.word) AS weights
    INTO q FROM (SELECT f.*, sum(f.records) OVER (ORDER BY f.records, f.word) AS sum
      FROM frequencies(c.id, c.languages, p_words, c.counted, c.marked) f) f;
  IF q.words IS NULL THEN
    RETURN;
  END IF;
  FOR more IN 0..(q.rarest < cardinality(q.words))::int LOOP
    RETURN QUERY EXECUTE ranking_statement(matching(p_tenant, p_filter), p_bare)
      USING c.id, p_tenant, any_of(q.words[:q.rarest], c.id, c.marked),
        CASE more WHEN 1 THEN any_of(q.words, c.id, c.marked) END, greatest(3000, 4 * p_k),
        q.words, q.weights, any_of(q.words, c.id, false), c.mean_words, p_k,
        any_of(q.words[:q.rarest], c.id, false);
    GET DIAGNOSTICS hits = ROW_COUNT;
    EXIT WHEN hits >= p_k;
  END LOOP;
END
$$;
