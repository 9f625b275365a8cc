"""Templates for the functions of one attachment, head and body, with placeholders for its names."""

# The trigger: it notes keys, and neither raises nor waits. What it cannot note is counted in a sequence, which no
# rollback undoes, and the table is then walked. Statements are noted as a whole; what a subscription applies, and what
# is written with session_replication_role = replica, row by row, since subscriptions run no statement triggers. Our own
# copying is recognised by a secret: any role can set a setting.
NOTE = (
    """
CREATE OR REPLACE FUNCTION embedq.note_{id}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' {alike} AS """,
    """
BEGIN
  IF TG_LEVEL = 'ROW' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT {id}, array_agg(DISTINCT c.key) FROM (
      SELECT d.key FROM (
        SELECT {key}, {watched}, 1 FROM (SELECT NEW.*) r WHERE TG_OP <> 'DELETE'
        UNION ALL SELECT {key}, {watched}, -1 FROM (SELECT OLD.*) r WHERE TG_OP <> 'INSERT'
      ) d (key, {numbered}, side) GROUP BY d.key, {numbered} HAVING sum(d.side) <> 0) c HAVING count(*) > 0;
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT {id}, array_agg({key}) FROM embedq_new r HAVING count(*) > 0;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT {id}, array_agg({key}) FROM embedq_old r HAVING count(*) > 0;
  ELSIF TG_OP = 'UPDATE' AND pg_trigger_depth() = 1 AND current_setting('embedq.copying', true) <> ''
    AND current_setting('embedq.copying', true)
      = (SELECT c.secret FROM embedq.copying c WHERE c.attachment = {id}) THEN
    RETURN NULL;
  ELSIF TG_OP = 'UPDATE' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT {id}, array_agg(DISTINCT c.key) FROM (
      SELECT d.key FROM (
        SELECT {key}, {watched}, 1 FROM embedq_new r UNION ALL SELECT {key}, {watched}, -1 FROM embedq_old r
      ) d (key, {numbered}, side) GROUP BY d.key, {numbered} HAVING sum(d.side) <> 0) c HAVING count(*) > 0;
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

# The trigger of a table that cannot be followed: the table is walked once it can be again.
DEAF = "CREATE OR REPLACE FUNCTION embedq.note_{id}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"

# Whether an id can be a key of the table at all: the key's type may have changed.
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
WHEN OTHERS THEN  -- a constraint of its type may be newer than the row
  RETURN true;
END
""",
)

# Current rows by key; with their lanes if asked; and whether the vector column holds the vector that is stored for
# the row's text, NULL if it holds nothing. Arguments have no names, since columns might have the same.
READ = (
    """
CREATE OR REPLACE FUNCTION embedq.read_{id}(text[], boolean)
RETURNS TABLE (id text, text text, tenant text, attributes jsonb, priority text, copied boolean)
LANGUAGE sql STABLE SET search_path = {lane_path} SET plan_cache_mode = force_generic_plan
{alike} {open} {lookup} AS """,
    """
  SELECT u.id, {text}, {tenant}, {attributes}, CASE WHEN $2 THEN {lane} END, {copied}
  FROM pg_catalog.unnest($1) u (id) JOIN {table} r ON {match}{stored}
""",
)

# Keep the vectors of the table's own column as paid for, for rows that are as they were in a snapshot. A row has only
# the lower half of the number of the transaction that wrote it: the rest is derived from the current one.
ADOPT = (
    """
CREATE OR REPLACE FUNCTION embedq.adopt_{id}(text[], pg_snapshot) RETURNS bigint
LANGUAGE sql SET search_path = {path} {alike} {open} {lookup} AS """,
    """
  WITH there AS MATERIALIZED (
    SELECT {text} AS text, r.{target}::{vector} AS embedding
    FROM pg_catalog.unnest($1) u (id) JOIN {table} r ON {match}
    CROSS JOIN (SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8 AS now) x
    WHERE {schema}.vector_dims(r.{target}) = (SELECT s.dimensions FROM embedq.space s WHERE s.id = {space})
      AND pg_catalog.pg_visible_in_snapshot((x.now
      - ((x.now - r.xmin::pg_catalog.text::pg_catalog.int8) & 4294967295))::pg_catalog.text::pg_catalog.xid8, $2)),
  kept AS (
    INSERT INTO embedq.spare (space, hash, paid_at, embedding)
    SELECT DISTINCT ON (t.hash) {space}, t.hash, pg_catalog.clock_timestamp(), t.embedding FROM (
      SELECT pg_catalog.sha256(pg_catalog.convert_to(w.text, 'UTF8')) AS hash, w.embedding FROM there w) t
    ON CONFLICT DO NOTHING)
  SELECT pg_catalog.count(*) FROM there w WHERE w.text COLLATE pg_catalog."default" ~ '[^[:space:]]'
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
    RETURN QUERY SELECT {key} FROM {table} r WHERE {after} ORDER BY {order} LIMIT p_limit;
  END IF;
END
""",
)

# Write vectors into their rows, if a row's text is still the one that was embedded, and clear rows that are not records
# any more. Rows are locked by a separate statement, so that the next one sees them as they are. When all triggers of
# the table have run, the rows are checked again: text and vector must be as intended. What triggers change otherwise is
# noted. Return the records whose rows are locked, or whose text has changed: it may have changed back before the next
# check. Only a superuser could set `copying` in the function's head.
PLACE = (
    """
CREATE OR REPLACE FUNCTION embedq.place_{id}(p_records bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = {lane_path} {alike} {open} {lookup} AS """,
    """
#variable_conflict use_variable
DECLARE
  held bigint[];
  chosen bigint[];
  fits boolean;
  moved text[];
BEGIN
  held := ARRAY(SELECT u.rid FROM embedq.record u JOIN {table} r ON {match}
    WHERE u.rid = ANY (p_records) AND {ours} FOR NO KEY UPDATE OF r SKIP LOCKED);
  chosen := ARRAY(SELECT u.rid FROM embedq.record u JOIN {table} r ON {match} {vectors}
    WHERE u.rid = ANY (held) AND CASE WHEN u.valid_to IS NULL THEN v.record IS NOT NULL AND {hash} = u.hash
      AND NOT {same} ELSE r.{target} IS NOT NULL END);
  IF chosen <> '{{}}' THEN
    PERFORM pg_catalog.set_config('embedq.copying', c.secret, true) FROM embedq.copying c WHERE c.attachment = {id};
    WITH w AS MATERIALIZED (SELECT u.id, v.embedding FROM embedq.record u {vectors} WHERE u.rid = ANY (chosen))
    UPDATE {table} r SET {target} = u.embedding FROM w u WHERE {match};
    PERFORM pg_catalog.set_config('embedq.copying', '', true);
    SELECT pg_catalog.bool_and(CASE WHEN u.valid_to IS NULL THEN {hash} = u.hash AND {same}
        ELSE r.{target} IS NULL END),
      pg_catalog.array_agg(u.id) FILTER (WHERE u.valid_to IS NULL AND {moved})
    INTO fits, moved FROM embedq.record u JOIN {table} r ON {match} {vectors} WHERE u.rid = ANY (chosen);
    IF NOT fits THEN
      RAISE EXCEPTION 'a trigger of the table changes the text or the vector when that is stored';
    END IF;
    IF moved IS NOT NULL THEN
      INSERT INTO embedq.noted (attachment, keys) VALUES ({id}, moved);
    END IF;
  END IF;
  IF pg_catalog.cardinality(chosen) = pg_catalog.cardinality(p_records) THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT pg_catalog.array_agg(u.rid) FROM embedq.record u JOIN {table} r ON {match} {vectors}
    WHERE u.rid = ANY (p_records) AND {ours} AND (u.rid <> ALL (held) OR (v.record IS NOT NULL AND {hash} <> u.hash)));
END
""",
)
