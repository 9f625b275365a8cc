"""The functions and triggers of one attachment, with its names filled in.

Every name is quoted, and every system function is qualified with its schema: the table's own schemas are searched
too, and a function that someone created there must not be called instead.
"""

from collections.abc import Iterable, Mapping

from embedq.attachment import Attachment
from embedq.stores.postgres.attaching.source import Column, Source, lane, path
from embedq.stores.postgres.attaching.templates import ADOPT, IS_KEY, NOTE, PAGE, PLACE, READ
from embedq.stores.postgres.quoting import quoted

# Texts and keys are formatted the same in every session, whatever its settings are.
ALIKE = (
    "SET TimeZone = 'UTC' SET DateStyle = 'ISO' SET IntervalStyle = 'postgres' "
    "SET extra_float_digits = 1 SET bytea_output = 'hex'"
)
PLAIN = frozenset(
    {"int2", "int4", "int8", "text", "varchar", "bpchar", "name", "citext", "uuid", "numeric", "bool"}
)  # types whose text form depends on no setting
STRICT = frozenset({"int2", "int4", "int8", "uuid", "bool"})  # types whose equal values have equal texts
OPEN = "SET row_security = off"  # rows hidden by a policy raise an error instead of counting as deleted
# A plan may be made while a table is empty and kept while it grows: rows are looked up one by one, by key.
LOOKUP = "SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off"
SYSTEM = "pg_catalog"
CHUNKS_SINCE = 17  # the first version that can say where a long value is stored

FUNCTIONS = (
    "note_{id}()", "is_key_{id}(text)", "read_{id}(text[], boolean)", "page_{id}(text, int)", "place_{id}(bigint[])",
    "adopt_{id}(text[], pg_snapshot)",
)  # fmt: skip

# Triggers by name, and when they fire: (O) where changes are made, (R) where they are replicated to, (A) both.
# A subscription runs row triggers and TRUNCATE triggers only.
TRIGGERS = {
    "insert": ("AFTER INSERT ON {} REFERENCING NEW TABLE AS embedq_new FOR EACH STATEMENT", "O"),
    "update": (
        "AFTER UPDATE ON {} REFERENCING OLD TABLE AS embedq_old NEW TABLE AS embedq_new FOR EACH STATEMENT", "O"
    ),
    "delete": ("AFTER DELETE ON {} REFERENCING OLD TABLE AS embedq_old FOR EACH STATEMENT", "O"),
    "truncate": ("AFTER TRUNCATE ON {} FOR EACH STATEMENT", "A"),
    "row": ("AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW", "R"),
}  # fmt: skip
FIRES = {"O": "ENABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}


def functions(
    number: int, collection: int, space: int, wanted: Attachment, source: Source, *, version: int
) -> list[str]:
    """Write the functions of an attachment for this server version."""
    columns = [f"r.{quoted(column.name)}" for column in source.key]
    ordered = [_collated(name, column) for name, column in zip(columns, source.key, strict=True)]
    text = _text(wanted, source)
    hash_ = f"pg_catalog.sha256(pg_catalog.convert_to({text}, 'UTF8'))"
    parts = {
        "id": number,
        "ours": f"u.collection IS NOT DISTINCT FROM {collection}",  # written so that no index is used
        "space": space,
        "alike": ALIKE,
        "open": OPEN,
        "lookup": LOOKUP,
        "path": "pg_catalog, pg_temp",
        "lane_path": path(source),  # also used where the table's own triggers run
        "table": source.table,
        "key": _key(source),
        "order": ", ".join(ordered),
        "match": _match(ordered, _key(source), source),
        "after": _after(ordered, source),
        "value": ", ".join(_values(source, "p_id")),
        "text": text,
        "hash": hash_,
        "tenant": _as_text(source.columns[wanted.tenant]) if wanted.tenant else "NULL::text",
        "moved": _moved(wanted, source),
        "attributes": _attributes(wanted),
        "lane": lane(wanted.priority, source) if wanted.priority else "NULL",
        **_target(collection, space, hash_, wanted, source),
    }
    note = parts | _noting(wanted, source, version)
    rest = [IS_KEY, READ, PAGE, *([PLACE, ADOPT] if wanted.into else [])]
    return [_function(NOTE, note), *(_function(template, parts) for template in rest)]


def _noting(wanted: Attachment, source: Source, version: int) -> dict[str, str]:
    """Write what the trigger compares: bytes, independent of collation and session."""
    names = dict.fromkeys([*wanted.text, *wanted.attributes, *([wanted.tenant] if wanted.tenant else [])])
    watched = [_watched(source.columns[name], version) for name in names]
    if wanted.into:
        watched.append(_watched_vector(source.columns[wanted.into], version))
    plain = all(column.base in PLAIN for column in (*source.key, *(source.columns[name] for name in names)))
    return {
        "alike": "" if plain else ALIKE,
        "key": f'({_key(source)}) COLLATE pg_catalog."C"',
        "watched": ", ".join(watched),
        "numbered": ", ".join(f"c{place}" for place, _ in enumerate(watched)),
    }


def _target(collection: int, space: int, hash_: str, wanted: Attachment, source: Source) -> dict[str, str]:
    """Write what concerns the table's own vector column."""
    if wanted.into is None:
        return {"copied": "NULL::boolean", "stored": ""}
    column, name = source.columns[wanted.into], quoted(wanted.into)
    schema = quoted(column.type_schema)
    same = f"coalesce(r.{name}::{schema}.{column.base} OPERATOR({schema}.=) v.embedding::{schema}.{column.base}, false)"
    return {
        "target": name,
        "schema": schema,
        "vector": f"{schema}.vector",
        "same": same,
        "vectors": f"LEFT JOIN embedq.vector_{space} v ON v.record = u.rid AND v.hash = u.hash AND u.valid_to IS NULL",
        "stored": f" LEFT JOIN embedq.record x ON x.collection = {collection} AND x.id = u.id"
        f" LEFT JOIN embedq.vector_{space} v ON v.record = x.rid",
        "copied": f"CASE WHEN pg_catalog.num_nulls(r.{name}) = 0 THEN coalesce(v.hash = {hash_}, false) AND {same} END",
    }


def _function(template: tuple[str, str], parts: Mapping[str, object]) -> str:
    """Fill in names; the body is one quoted string, so that no name in it can end it."""
    head, body = template
    return f"{head.format(**parts)}{_literal(body.format(**parts))}"


def triggers(number: int, relation: str, names: Iterable[str]) -> list[str]:
    """Write the triggers of an attachment on one table or partition, given by its quoted name."""
    statements = []
    for name in names:
        when, fires = TRIGGERS[name]
        called = trigger(number, name)
        statements += [
            f"CREATE OR REPLACE TRIGGER {called} {when.format(relation)} EXECUTE FUNCTION embedq.note_{number}()",
            f"ALTER TABLE {relation} {FIRES[fires]} TRIGGER {called}",
        ]
    return statements


def trigger(number: int, name: str) -> str:
    """Return a trigger's name."""
    return f"embedq_{number}_{name}"


def _as_text(column: Column) -> str:
    """Write a value as text; for types that are not built in, by their output function: casts are user-defined.

    A composite value that contains a NULL is not `IS NOT NULL`, just like one that is NULL, so NULLs are counted.
    """
    name = f"r.{quoted(column.name)}"
    if column.type_schema == SYSTEM:
        return f"{name}::text"
    return f"CASE WHEN pg_catalog.num_nulls({name}) = 0 THEN pg_catalog.concat({name}) END"


def _watched(column: Column, version: int) -> str:
    """Write what is compared of a value: for a long one, where it is stored, which changes with every update."""
    value = _as_text(column)
    if version >= CHUNKS_SINCE:
        value = f"coalesce(chr(1) || {_chunk(column)}, {value})"
    return f'({value}) COLLATE pg_catalog."C"'


def _watched_vector(column: Column, version: int) -> str:
    """Write what is compared of a vector: a digest of its bytes, which is much faster than its text."""
    kind = f"{quoted(column.type_schema)}.{column.base}"
    value = f"md5({kind}_send(r.{quoted(column.name)}::{kind}))"
    if version >= CHUNKS_SINCE:
        value = f"coalesce({_chunk(column)}, {value})"
    return f'({value}) COLLATE pg_catalog."C"'


def _chunk(column: Column) -> str:
    return f"pg_column_toast_chunk_id(r.{quoted(column.name)})::text"


def _key(source: Source) -> str:
    """Write a row's key as a record id: the text itself, or a JSON list of texts."""
    texts = [_as_text(column) for column in source.key]
    return texts[0] if len(texts) == 1 else f"pg_catalog.jsonb_build_array({', '.join(texts)})::text"


def _values(source: Source, id_: str) -> list[str]:
    """Write a record id as the values of the key's columns."""
    if len(source.key) == 1:
        return [_collated(f"{id_}::{source.key[0].type}", source.key[0])]
    numbered = enumerate(source.key)
    return [_collated(f"({id_}::jsonb ->> {place})::{column.type}", column) for place, column in numbered]


def _collated(value: str, column: Column) -> str:
    """Compare with the unique index's collation, or the index would not be used."""
    return f"{value} COLLATE {column.collation}" if column.collation else value


def _match(ordered: list[str], key: str, source: Source) -> str:
    """Find the row of the id `u.id`, only if its key has exactly that text: 1.0 = 1.00, but they are two ids."""
    values = zip(source.key, ordered, _values(source, "u.id"), strict=True)
    pairs = [f"{theirs} {column.equal} {ours}" for column, theirs, ours in values]
    if not all(column.base in STRICT for column in source.key):
        pairs.append(f'({key}) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) u.id')
    return " AND ".join(pairs)


def _after(ordered: list[str], source: Source) -> str:
    """Find the rows after the key `p_after`, by the index where one operator covers all its columns."""
    values = _values(source, "p_after")
    if len({column.beyond for column in source.key}) == 1:
        return f"({', '.join(ordered)}) {source.key[0].beyond} ({', '.join(values)})"
    parts = []
    for place, column in enumerate(source.key):
        alike = [f"{ordered[n]} {source.key[n].equal} {values[n]}" for n in range(place)]
        parts.append(" AND ".join([*alike, f"{ordered[place]} {column.beyond} {values[place]}"]))
    return f"({' OR '.join(f'({part})' for part in parts)})"


def _moved(wanted: Attachment, source: Source) -> str:
    """Write whether a row's attributes or tenant differ from its record's."""
    parts = []
    if wanted.attributes:
        parts.append(f"coalesce({_attributes(wanted)}, '{{}}'::jsonb) IS DISTINCT FROM u.attributes")
    if wanted.tenant:
        theirs = _as_text(source.columns[wanted.tenant])
        parts.append(f'({theirs}) COLLATE pg_catalog."C" IS DISTINCT FROM u.tenant')
    return f"({' OR '.join(parts)})" if parts else "false"


def _text(wanted: Attachment, source: Source) -> str:
    """Write a row's text; emptiness is tested on bytes, since a collation may treat a dash as empty."""
    columns = (f"nullif(({_as_text(source.columns[name])}) COLLATE pg_catalog.\"C\", '')" for name in wanted.text)
    return f"pg_catalog.concat_ws(E'\\n', {', '.join(columns)})"


def _attributes(wanted: Attachment) -> str:
    """Write the columns as one object: NULL columns are left out, a null in their JSON is kept."""
    if not wanted.attributes:
        return "NULL::jsonb"
    pairs = ((_literal(name), f"r.{quoted(name)}") for name in wanted.attributes)
    one = "CASE WHEN pg_catalog.num_nulls({1}) = 0 THEN pg_catalog.jsonb_build_object({0}, {1}) ELSE '{{}}' END"
    return f"({' || '.join(one.format(*pair) for pair in pairs)})"


def _literal(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f" E'{doubled}'"
