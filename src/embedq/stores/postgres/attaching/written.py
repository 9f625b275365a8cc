"""The functions and triggers of one attachment, with its names in them.

Every name is quoted, and every function of the system's is named with its schema: the table's own schemas are searched
too, and whoever may create functions there must not be called in their place.
"""

from collections.abc import Mapping

from embedq.model import Attachment
from embedq.stores.postgres.attaching.source import Column, Source, lane, path
from embedq.stores.postgres.schema import quoted

# Texts and keys are written alike in every session, whatever its settings are.
ALIKE = (
    "SET TimeZone = 'UTC' SET DateStyle = 'ISO' SET IntervalStyle = 'postgres' "
    "SET extra_float_digits = 1 SET bytea_output = 'hex'"
)
PLAIN = frozenset(
    {"int2", "int4", "int8", "text", "varchar", "bpchar", "name", "citext", "uuid", "numeric", "bool"}
)  # types that are written alike by themselves
STRICT = frozenset({"int2", "int4", "int8", "uuid", "bool"})  # types whose equal values are written alike
OPEN = "SET row_security = off"  # rows that a policy hides are an error, and not gone
# A plan may be made while a table is empty and kept while it grows: rows are looked up one by one, by the key.
LOOKUP = "SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off"
EVENTS = ("insert", "update", "delete", "truncate")

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
    RETURN QUERY SELECT {key} FROM {table} r WHERE ({order}) > ({after}) ORDER BY {order} LIMIT p_limit;
  END IF;
END
""",
)

# Write vectors into their rows, if a row's text is still the one that was embedded, and clear rows that are no records
# any more. Rows are locked by a statement of their own, so that the next one sees them as they are. Answer with the
# records whose rows somebody holds, or whose text is another by now: it may be the old one again before anybody looks.
PLACE = (
    """
CREATE OR REPLACE FUNCTION embedq.place_{id}(p_records bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = {path} SET embedq.copying = '{id}' {alike} {open} {lookup} AS """,
    """
#variable_conflict use_variable
DECLARE
  held bigint[];
  fits boolean;
  placed int;
BEGIN
  held := ARRAY(SELECT u.rid FROM embedq.record u JOIN {table} r ON {match}
    WHERE u.rid = ANY (p_records) AND {ours} FOR NO KEY UPDATE OF r SKIP LOCKED);
  WITH w AS MATERIALIZED (
    SELECT x.rid, x.id, x.valid_to IS NULL AS live, x.hash, v.embedding FROM embedq.record x
    LEFT JOIN embedq.vector_{space} v ON v.record = x.rid AND v.hash = x.hash AND x.valid_to IS NULL
    WHERE x.rid = ANY (held)),
  done AS (
    UPDATE {table} r SET {target} = u.embedding FROM w u
    WHERE {match} AND CASE WHEN u.live THEN u.embedding IS NOT NULL AND {hash} = u.hash ELSE r.{target} IS NOT NULL END
    RETURNING NOT u.live OR {hash} = u.hash AS fits)
  SELECT pg_catalog.count(*), pg_catalog.bool_and(d.fits) INTO placed, fits FROM done d;
  IF NOT fits THEN
    RAISE EXCEPTION 'a trigger of the table changes the text when its vector is stored';
  ELSIF placed = pg_catalog.cardinality(p_records) THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT pg_catalog.array_agg(u.rid) FROM embedq.record u JOIN {table} r ON {match}
    LEFT JOIN embedq.vector_{space} v ON v.record = u.rid AND v.hash = u.hash AND u.valid_to IS NULL
    WHERE u.rid = ANY (p_records) AND {ours} AND (u.rid <> ALL (held) OR (v.record IS NOT NULL AND {hash} <> u.hash)));
END
""",
)
FUNCTIONS = ("note_{id}()", "read_{id}(text[], boolean)", "page_{id}(text, int)", "place_{id}(bigint[])")

TRANSITIONS = {
    "insert": "REFERENCING NEW TABLE AS embedq_new",
    "update": "REFERENCING OLD TABLE AS embedq_old NEW TABLE AS embedq_new",
    "delete": "REFERENCING OLD TABLE AS embedq_old",
    "truncate": "",
}
# Our own copying changes no text; what the table's triggers do about it may.
OTHERS = "WHEN (current_setting('embedq.copying', true) IS DISTINCT FROM '{id}' OR pg_trigger_depth() > 0)"


def functions(number: int, collection: int, space: int, wanted: Attachment, source: Source) -> list[str]:
    """Write the functions of an attachment."""
    columns = [f"r.{quoted(column.name)}" for column in source.key]
    ordered = [_collated(name, column) for name, column in zip(columns, source.key, strict=True)]
    text = _text(wanted)
    parts = {
        "id": number,
        "ours": f"u.collection IS NOT DISTINCT FROM {collection}",  # which no index is tempted by
        "space": space,
        "alike": ALIKE,
        "open": OPEN,
        "lookup": LOOKUP,
        "path": path(source),
        "table": source.table,
        "key": _key(columns),
        "order": ", ".join(ordered),
        "match": _match(ordered, _key(columns), source),
        "after": ", ".join(_values(source, "p_after")),
        "text": text,
        "hash": f"pg_catalog.sha256(pg_catalog.convert_to({text}, 'UTF8'))",
        "tenant": f"r.{quoted(wanted.tenant)}::text" if wanted.tenant else "NULL::text",
        "attributes": _attributes(wanted),
        "lane": lane(wanted.priority, source) if wanted.priority else "NULL",
        "copied": f"r.{quoted(wanted.into)} IS NOT NULL" if wanted.into else "NULL::boolean",
        "target": quoted(wanted.into or ""),
    }
    watched = dict.fromkeys([*wanted.text, *wanted.attributes, *([wanted.tenant] if wanted.tenant else [])])
    note = parts | {
        "alike": "" if all(column.base in PLAIN for column in source.key) else ALIKE,
        "watched": ", ".join(f"r.{quoted(name)}::text" for name in watched),
        "numbered": ", ".join(f"c{place}" for place, _ in enumerate(watched)),
    }
    rest = [READ, PAGE, *([PLACE] if wanted.into else [])]
    return [_function(NOTE, note), *(_function(template, parts) for template in rest)]


def _function(template: tuple[str, str], parts: Mapping[str, object]) -> str:
    """Fill in names; the body is one quoted text, so that no name in it can end it."""
    head, body = template
    return f"{head.format(**parts)}{_literal(body.format(**parts))}"


def triggers(number: int, relation: str) -> list[str]:
    """Write the triggers of an attachment on one table or partition, whose name is quoted already."""
    return [
        f"CREATE OR REPLACE TRIGGER {trigger(number, event)} AFTER {event.upper()} ON {relation} {TRANSITIONS[event]} "
        f"FOR EACH STATEMENT {OTHERS.format(id=number) if event == 'update' else ''} "
        f"EXECUTE FUNCTION embedq.note_{number}()"
        for event in EVENTS
    ]


def trigger(number: int, event: str) -> str:
    """Name a trigger."""
    return f"embedq_{number}_{event}"


def _key(columns: list[str]) -> str:
    """Write a row's key as a record's id: the text itself, or a JSON list of texts."""
    texts = [f"{column}::text" for column in columns]
    return texts[0] if len(texts) == 1 else f"pg_catalog.jsonb_build_array({', '.join(texts)})::text"


def _values(source: Source, id_: str) -> list[str]:
    """Write a record's id as the values of the key's columns."""
    if len(source.key) == 1:
        return [_collated(f"{id_}::{source.key[0].type}", source.key[0])]
    numbered = enumerate(source.key)
    return [_collated(f"({id_}::jsonb ->> {place})::{column.type}", column) for place, column in numbered]


def _collated(value: str, column: Column) -> str:
    """Compare as the unique index does, or it would not be used."""
    return f"{value} COLLATE {column.collation}" if column.collation else value


def _match(ordered: list[str], key: str, source: Source) -> str:
    """Find the row of the id `u.id`, and only if its key is written like that: 1.0 = 1.00, but they are two ids."""
    pairs = list(map(" = ".join, zip(ordered, _values(source, "u.id"), strict=True)))
    if not all(column.base in STRICT for column in source.key):
        pairs.append(f'{key} COLLATE pg_catalog."C" = u.id')
    return " AND ".join(pairs)


def _text(wanted: Attachment) -> str:
    columns = (f"nullif(r.{quoted(name)}::text, '')" for name in wanted.text)
    return f"pg_catalog.concat_ws(E'\\n', {', '.join(columns)})"


def _attributes(wanted: Attachment) -> str:
    if not wanted.attributes:
        return "NULL::jsonb"
    pairs = (f"{_literal(name)}, r.{quoted(name)}" for name in wanted.attributes)
    return f"pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object({', '.join(pairs)}))"


def _literal(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f" E'{doubled}'"
