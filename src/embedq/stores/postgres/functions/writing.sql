-- Records put and deleted in plain SQL, from any language, in the caller's own transaction.

-- Write an attribute as words, as `policy.texts.compose` does: a list as its items, any other that is no text as JSON,
-- and a number as Python writes it.
CREATE FUNCTION words_of(p_value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE jsonb_typeof(p_value)
    WHEN 'string' THEN p_value #>> '{}'
    WHEN 'number' THEN regexp_replace(p_value::text, '(\.\d+?)0+$', '\1')
    WHEN 'array' THEN coalesce((SELECT string_agg(words_of(i.item), ', ' ORDER BY i.n)
      FROM jsonb_array_elements(p_value) WITH ORDINALITY i (item, n)), '')
    ELSE p_value::text END;
END
$$;

-- Make the text of a record: its own, or of the attributes that its collection names.
CREATE FUNCTION text_of(p_text_from text, p_record jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_text_from IS NULL THEN
    RETURN p_record ->> 'text';
  END IF;
  RETURN (SELECT string_agg(words_of(p_record -> 'attributes' -> f.name), E'\n' ORDER BY f.n)
    FROM jsonb_array_elements_text(p_text_from::jsonb) WITH ORDINALITY f (name, n)
    WHERE p_record -> 'attributes' -> f.name NOT IN ('null', '""', '[]'));
END
$$;

-- Say why what was sent cannot be a record; NULL: it can. The same is refused as by `policy.texts` and the client, with
-- the default limit of a text: the settings of processes are not known here.
CREATE FUNCTION problem_of(r jsonb, p_text_from text, p_text text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  fields text[] := ARRAY['attributes', 'id', 'priority', 'tenant', 'text'];
BEGIN
  RETURN CASE
    WHEN jsonb_typeof(r) <> 'object' THEN format('a record must be an object, not %s', jsonb_typeof(r))
    WHEN r - fields <> '{}' THEN format('a record has no field %s: it has %s',
      (SELECT quote_literal(left(min(k), 64)) FROM jsonb_object_keys(r - fields) k), array_to_string(fields, ', '))
    WHEN r -> 'id' IS NULL THEN 'the record has no `id`'
    WHEN jsonb_typeof(r -> 'id') <> 'string' THEN 'the id must be a string'
    WHEN jsonb_typeof(r -> 'tenant') NOT IN ('string', 'null') THEN 'the tenant must be a string'
    WHEN jsonb_typeof(r -> 'text') NOT IN ('string', 'null') THEN '`text` must be a string'
    WHEN jsonb_typeof(r -> 'attributes') NOT IN ('object', 'null') THEN '`attributes` must be an object'
    WHEN r ->> 'priority' IS NOT NULL AND lane_of(r ->> 'priority', (-1)::smallint) < 0
      THEN 'priority: write urgent, high, normal or low (or 3, 2, 1, 0)'
    WHEN jsonb_path_exists(r -> 'attributes', '$.**{64}') THEN '`attributes` are nested deeper than 64'
    WHEN p_text_from IS NOT NULL AND r ->> 'text' IS NOT NULL
      THEN format('this collection makes its text from %s: send attributes, not text', p_text_from)
    WHEN (p_text ~ '[^[:space:]]') IS NOT TRUE THEN format('nothing to embed: %s must hold a text that is not empty',
      coalesce('the attributes ' || p_text_from, '`text`'))
    WHEN octet_length(p_text) > 1 << 20
      THEN format('`text` has %s bytes, the limit is %s: split it', octet_length(p_text), 1 << 20)
    ELSE refusal(r ->> 'id', NULL, r ->> 'tenant', r -> 'attributes', NULL) END;
END
$$;

-- Read the records of a request, in the order in which writers take them.
CREATE FUNCTION read_request(c collection, p_records jsonb)
RETURNS TABLE (place int, id text, text text, attributes jsonb, tenant text, priority smallint, problem text)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN QUERY SELECT u.n::int, u.r ->> 'id', t.text, nullif(u.r -> 'attributes', 'null'), u.r ->> 'tenant',
    lane_of(u.r ->> 'priority', c.priority), coalesce(problem_of(u.r, c.text_from, t.text), CASE
      WHEN count(*) OVER (PARTITION BY u.r ->> 'id') > 1 THEN 'the id stands here twice: send each id once' END)
  FROM jsonb_array_elements(p_records) WITH ORDINALITY u (r, n)
  CROSS JOIN LATERAL (SELECT CASE WHEN jsonb_typeof(u.r) = 'object' THEN text_of(c.text_from, u.r) END AS text) t
  ORDER BY (u.r ->> 'id') COLLATE "C";
END
$$;

-- Find a collection that callers may write to.
CREATE FUNCTION writable(p_name text) RETURNS collection
LANGUAGE plpgsql AS $$
DECLARE
  c collection;
BEGIN
  SELECT * INTO c FROM collection k WHERE k.name = p_name;
  IF NOT FOUND THEN
    RAISE undefined_object USING MESSAGE = format('no collection %L', p_name),
      HINT = 'Declare it with `embedq declare` before this transaction begins.';
  ELSIF EXISTS (SELECT FROM control k WHERE k.holds = 'jobs') THEN
    RAISE object_not_in_prerequisite_state USING
      MESSAGE = 'this database holds the queue alone: write to the one that holds the records';
  END IF;
  PERFORM require_detached(c.id);
  RETURN c;
END
$$;

-- Refuse a request that is no list of 1 to 1,000 records, or has one that cannot be a record: nothing is written then.
CREATE FUNCTION check_request(c collection, p_records jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  total int;
  refused int;
  said text;
BEGIN
  IF jsonb_typeof(p_records) IS DISTINCT FROM 'array' OR jsonb_array_length(p_records) NOT BETWEEN 1 AND 1000 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'send one record, or a list of 1 to 1000 of them';
  END IF;
  SELECT count(*), count(r.problem), string_agg(format('[%s] %s', r.place - 1, r.problem), '; ' ORDER BY r.place)
      FILTER (WHERE r.problem IS NOT NULL AND r.rank <= 5) INTO total, refused, said
  FROM (SELECT q.place, q.problem, rank() OVER (ORDER BY q.problem IS NULL, q.place) AS rank
    FROM read_request(c, p_records) q) r;
  IF refused > 0 THEN
    RAISE invalid_parameter_value
      USING MESSAGE = format('%s of %s records refused, so none is stored: %s', refused, total, said);
  END IF;
END
$$;

-- Put records, one or a list, all or none: each has an `id`, a `text` or `attributes`, and may have `priority` and
-- `tenant`. Answer in their order.
CREATE FUNCTION put(p_collection text, p_records jsonb) RETURNS TABLE (id text, embedding_status text, job_id text)
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
#variable_conflict use_column
DECLARE
  c collection := writable(p_collection);
  records jsonb := CASE jsonb_typeof(p_records) WHEN 'object' THEN jsonb_build_array(p_records) ELSE p_records END;
  r record;
  answer receipts;
BEGIN
  PERFORM check_request(c, records);
  SELECT array_agg(q.place) AS places, array_agg(q.id) AS ids, array_agg(q.text) AS texts,
    array_agg(sha256(convert_to(q.text, 'UTF8'))) AS hashes, array_agg(q.attributes) AS attributes,
    array_agg(q.tenant) AS tenants, array_agg(q.priority) AS priorities INTO r FROM read_request(c, records) q;
  answer := put_rows(c.name, c.id, c.revision, r.places, r.ids, r.texts, r.hashes, r.attributes, r.tenants,
    r.priorities, NULL, true);
  IF answer.problem = 'changed' THEN
    RAISE serialization_failure USING MESSAGE = 'the collection has just changed', HINT = 'Repeat the transaction.';
  ELSIF answer.problem IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'EQ001',
      MESSAGE = format('these ids belong to another tenant, so nothing is stored: %s', answer.problem);
  ELSIF answer.fresh IS NOT NULL THEN  -- numbers follow the order of the request
    answer := read_receipts(answer, c.id, r.ids, r.places);
  END IF;
  RETURN QUERY SELECT u.id, (ARRAY['pending', 'embedded', 'failed'])[s.status + 1], s.job || '.' || s.serial
    FROM unnest(r.ids, r.places) u (id, place)
    JOIN unnest(answer.places, answer.jobs, answer.serials, answer.statuses) s (place, job, serial, status)
      USING (place) ORDER BY place;
END
$$;

-- Delete records by their ids; with p_purge text and vector go permanently. Answer with those that were there; to a
-- tenant, those of others are not.
CREATE FUNCTION delete(p_collection text, p_ids text[], p_purge boolean DEFAULT false, p_tenant text DEFAULT NULL)
RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  c collection := writable(p_collection);
BEGIN
  RETURN QUERY SELECT unnest(delete_records(c.id, c.space, p_ids, p_purge, NULL, p_tenant));
END
$$;
