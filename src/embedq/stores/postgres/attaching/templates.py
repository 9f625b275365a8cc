"""The functions of one attachment as they are written, head and body, with places for its names."""

# The trigger: it notes keys, and neither raises nor waits. What it cannot note is counted where no rollback reaches,
# and the table is walked for it.
NOTE = (
    """
CREATE OR REPLACE FUNCTION embedq.note_{id}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' {alike} AS """,
    """
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT {id}, array_agg({key}) FROM embedq_new r HAVING count(*) > 0;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT {id}, array_agg({key}) FROM embedq_old r HAVING count(*) > 0;
  ELSIF TG_OP = 'UPDATE' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT {id}, array_agg(DISTINCT c.key) FROM (
      (SELECT {key}, {watched} FROM embedq_new r EXCEPT ALL SELECT {key}, {watched} FROM embedq_old r)
      UNION ALL
      (SELECT {key}, {watched} FROM embedq_old r EXCEPT ALL SELECT {key}, {watched} FROM embedq_new r)
    ) c (key, {numbered}) HAVING count(*) > 0;
  ELSE
    INSERT INTO embedq.noted (attachment) VALUES ({id});
  END IF;
  IF FOUND AND abs(date_part('epoch', clock_timestamp()) * 1000
    - coalesce(nullif(current_setting('embedq.rung', true), ''), '0')::float8) >= 50 THEN
    PERFORM embedq.ring();
  END IF;
  RETURN NULL;
EXCEPTION WHEN OTHERS THEN
  BEGIN
    PERFORM nextval('embedq.unnoted');
  EXCEPTION WHEN OTHERS THEN
    NULL;
  END;
  RAISE WARNING 'embedq could not note a change, and will look for it: %', SQLERRM;
  RETURN NULL;
END
""",
)

# The trigger of a table that cannot be followed: it is walked when it can be again.
DEAF = "CREATE OR REPLACE FUNCTION embedq.note_{id}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"

# Whether an id can be a key of the table at all: the key's type may have been another.
IS_KEY = (
    """
CREATE OR REPLACE FUNCTION embedq.is_key_{id}(p_id text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = {path} {alike} AS """,
    """
BEGIN
  PERFORM {value};
  RETURN true;
EXCEPTION WHEN data_exception THEN
  RETURN false;
WHEN OTHERS THEN  -- a rule of its type may have come later than the row
  RETURN true;
END
""",
)

# Rows as they are now, by their keys; with their lanes if asked. Arguments have no names, which columns might have too.
READ = (
    """
CREATE OR REPLACE FUNCTION embedq.read_{id}(text[], boolean)
RETURNS TABLE (id text, text text, tenant text, attributes jsonb, priority text, copied boolean)
LANGUAGE sql STABLE SET search_path = {path} SET plan_cache_mode = force_generic_plan {alike} {open} {lookup} AS """,
    """
  SELECT u.id, {text}, {tenant}, {attributes}, CASE WHEN $2 THEN {lane} END, {copied}
  FROM pg_catalog.unnest($1) u (id) JOIN {table} r ON {match}
""",
)

# The next keys of the table, in the order of its index.
PAGE = (
    """
CREATE OR REPLACE FUNCTION embedq.page_{id}(p_after text, p_limit int) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = {path} SET plan_cache_mode = force_generic_plan {alike} {open} AS """,
    """
#variable_conflict use_variable
BEGIN
  IF p_after = '' THEN
    RETURN QUERY SELECT {key} FROM {table} r ORDER BY {order} LIMIT p_limit;
  ELSE
    RETURN QUERY SELECT {key} FROM {table} r WHERE ({order}) {beyond} ({after}) ORDER BY {order} LIMIT p_limit;
  END IF;
END
""",
)

# Write vectors into their rows, if a row's text is still the one that was embedded, and clear rows that are no records
# any more. Rows are locked by a statement of their own, so that the next one sees them as they are. What the table's
# triggers change beside it is noted. Answer with the records whose rows somebody holds, or whose text is another by
# now: it may be the old one again before anybody looks. Only a superuser could have the head of it set `copying`.
PLACE = (
    """
CREATE OR REPLACE FUNCTION embedq.place_{id}(p_records bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = {path} {alike} {open} {lookup} AS """,
    """
#variable_conflict use_variable
DECLARE
  held bigint[];
  fits boolean;
  placed int;
  moved text[];
BEGIN
  PERFORM pg_catalog.set_config('embedq.copying', '{id}', true);
  held := ARRAY(SELECT u.rid FROM embedq.record u JOIN {table} r ON {match}
    WHERE u.rid = ANY (p_records) AND {ours} FOR NO KEY UPDATE OF r SKIP LOCKED);
  WITH w AS MATERIALIZED (
    SELECT x.rid, x.id, x.valid_to IS NULL AS live, x.hash, x.attributes, x.tenant, v.embedding FROM embedq.record x
    LEFT JOIN embedq.vector_{space} v ON v.record = x.rid AND v.hash = x.hash AND x.valid_to IS NULL
    WHERE x.rid = ANY (held)),
  done AS (
    UPDATE {table} r SET {target} = u.embedding FROM w u
    WHERE {match} AND CASE WHEN u.live THEN u.embedding IS NOT NULL AND {hash} = u.hash ELSE r.{target} IS NOT NULL END
    RETURNING u.id, NOT u.live OR {hash} = u.hash AS fits, u.live AND {moved} AS moved)
  SELECT pg_catalog.count(*), pg_catalog.bool_and(d.fits), pg_catalog.array_agg(d.id) FILTER (WHERE d.moved)
  INTO placed, fits, moved FROM done d;
  PERFORM pg_catalog.set_config('embedq.copying', '', true);
  IF NOT fits THEN
    RAISE EXCEPTION 'a trigger of the table changes the text when its vector is stored';
  END IF;
  IF moved IS NOT NULL THEN
    INSERT INTO embedq.noted (attachment, keys) VALUES ({id}, moved);
  END IF;
  IF placed = pg_catalog.cardinality(p_records) THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT pg_catalog.array_agg(u.rid) FROM embedq.record u JOIN {table} r ON {match}
    LEFT JOIN embedq.vector_{space} v ON v.record = u.rid AND v.hash = u.hash AND u.valid_to IS NULL
    WHERE u.rid = ANY (p_records) AND {ours} AND (u.rid <> ALL (held) OR (v.record IS NOT NULL AND {hash} <> u.hash)));
END
""",
)
