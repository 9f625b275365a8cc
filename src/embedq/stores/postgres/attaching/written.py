"""The functions and triggers of one attachment, with its names in them.

Every name is quoted, and every function of the system's is named with its schema: the table's own schemas are searched
too, and whoever may create functions there must not be called in their place.
"""

from collections.abc import Mapping

from embedq.model import Attachment
from embedq.stores.postgres.attaching.source import Column, Source, lane, path
from embedq.stores.postgres.attaching.templates import IS_KEY, NOTE, PAGE, PLACE, READ
from embedq.stores.postgres.quoting import quoted

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
SYSTEM = "pg_catalog"
CHUNKS_SINCE = 17  # the version that can say where a long value is stored
EVENTS = ("insert", "update", "delete", "truncate")

FUNCTIONS = (
    "note_{id}()", "is_key_{id}(text)", "read_{id}(text[], boolean)", "page_{id}(text, int)", "place_{id}(bigint[])"
)  # fmt: skip

TRANSITIONS = {
    "insert": "REFERENCING NEW TABLE AS embedq_new",
    "update": "REFERENCING OLD TABLE AS embedq_old NEW TABLE AS embedq_new",
    "delete": "REFERENCING OLD TABLE AS embedq_old",
    "truncate": "",
}
# Our own copying changes no text; what the table's triggers do about it may.
OTHERS = "WHEN (current_setting('embedq.copying', true) IS DISTINCT FROM '{id}' OR pg_trigger_depth() > 0)"


def functions(
    number: int, collection: int, space: int, wanted: Attachment, source: Source, *, version: int
) -> list[str]:
    """Write the functions of an attachment, for a server of this version."""
    columns = [f"r.{quoted(column.name)}" for column in source.key]
    ordered = [_collated(name, column) for name, column in zip(columns, source.key, strict=True)]
    text = _text(wanted, source)
    parts = {
        "id": number,
        "ours": f"u.collection IS NOT DISTINCT FROM {collection}",  # which no index is tempted by
        "space": space,
        "alike": ALIKE,
        "open": OPEN,
        "lookup": LOOKUP,
        "path": path(source),
        "table": source.table,
        "key": _key(source),
        "beyond": _operator(">", *source.key),
        "order": ", ".join(ordered),
        "match": _match(ordered, _key(source), source),
        "after": ", ".join(_values(source, "p_after")),
        "value": ", ".join(_values(source, "p_id")),
        "text": text,
        "hash": f"pg_catalog.sha256(pg_catalog.convert_to({text}, 'UTF8'))",
        "tenant": _as_text(source.columns[wanted.tenant]) if wanted.tenant else "NULL::text",
        "moved": _moved(wanted, source),
        "attributes": _attributes(wanted),
        "lane": lane(wanted.priority, source) if wanted.priority else "NULL",
        "copied": f"r.{quoted(wanted.into)} IS NOT NULL" if wanted.into else "NULL::boolean",
        "target": quoted(wanted.into or ""),
    }
    watched = dict.fromkeys([*wanted.text, *wanted.attributes, *([wanted.tenant] if wanted.tenant else [])])
    note = parts | {
        "alike": "" if all(column.base in PLAIN for column in source.key) else ALIKE,
        "watched": ", ".join(_watched(source.columns[name], version) for name in watched),
        "numbered": ", ".join(f"c{place}" for place, _ in enumerate(watched)),
    }
    rest = [IS_KEY, READ, PAGE, *([PLACE] if wanted.into else [])]
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


def _as_text(column: Column) -> str:
    """Write a value as a text; where its type is not the system's, by its own output: casts are made by people.

    A composite value with a NULL in it `IS NOT NULL` no more than one that is NULL, so that NULLs are counted.
    """
    name = f"r.{quoted(column.name)}"
    if column.type_schema == SYSTEM:
        return f"{name}::text"
    return f"CASE WHEN pg_catalog.num_nulls({name}) = 0 THEN pg_catalog.concat({name}) END"


def _watched(column: Column, version: int) -> str:
    """Write what is compared of a value: of a long one, where it is stored, which every change of it changes."""
    if version < CHUNKS_SINCE:
        return _as_text(column)
    return f"coalesce(chr(1) || pg_column_toast_chunk_id(r.{quoted(column.name)})::text, {_as_text(column)})"


def _operator(sign: str, *columns: Column) -> str:
    """Name an operator of the system's, where that is meant: people may have made one that fits better."""
    return f"OPERATOR(pg_catalog.{sign})" if all(column.type_schema == SYSTEM for column in columns) else sign


def _key(source: Source) -> str:
    """Write a row's key as a record's id: the text itself, or a JSON list of texts."""
    texts = [_as_text(column) for column in source.key]
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
    values = zip(source.key, ordered, _values(source, "u.id"), strict=True)
    pairs = [f"{theirs} {_operator('=', column)} {ours}" for column, theirs, ours in values]
    if not all(column.base in STRICT for column in source.key):
        pairs.append(f'({key}) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) u.id')
    return " AND ".join(pairs)


def _moved(wanted: Attachment, source: Source) -> str:
    """Write whether a row has other attributes or another tenant than its record."""
    parts = []
    if wanted.attributes:
        parts.append(f"coalesce({_attributes(wanted)}, '{{}}'::jsonb) IS DISTINCT FROM u.attributes")
    if wanted.tenant:
        theirs = _as_text(source.columns[wanted.tenant])
        parts.append(f'({theirs}) COLLATE pg_catalog."C" IS DISTINCT FROM u.tenant')
    return f"({' OR '.join(parts)})" if parts else "false"


def _text(wanted: Attachment, source: Source) -> str:
    columns = (f"nullif({_as_text(source.columns[name])}, '')" for name in wanted.text)
    return f"pg_catalog.concat_ws(E'\\n', {', '.join(columns)})"


def _attributes(wanted: Attachment) -> str:
    """Write the columns as one object: those that are NULL are left out, what is null in their JSON is not."""
    if not wanted.attributes:
        return "NULL::jsonb"
    pairs = ((_literal(name), f"r.{quoted(name)}") for name in wanted.attributes)
    one = "CASE WHEN pg_catalog.num_nulls({1}) = 0 THEN pg_catalog.jsonb_build_object({0}, {1}) ELSE '{{}}' END"
    return f"({' || '.join(one.format(*pair) for pair in pairs)})"


def _literal(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f" E'{doubled}'"
