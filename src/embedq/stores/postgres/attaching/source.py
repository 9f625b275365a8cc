"""Inspect a table before it is attached, and refuse what does not fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import asyncpg

from embedq.attachment import Attachment
from embedq.errors import Invalid, NotFound
from embedq.stores.postgres.connection import OWN_PATH_HERE, Connection
from embedq.stores.postgres.quoting import quoted

# A table by its bare name or by SCHEMA.NAME; otherwise as SQL writes it.
BY_NAME = """
SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE (c.relname::text = $1::text AND pg_catalog.pg_table_is_visible(c.oid))
  OR pg_catalog.format('%s.%s', n.nspname, c.relname) = $1
ORDER BY c.relname::text = $1 DESC, pg_catalog.length(n.nspname::text) LIMIT 1
"""
AS_WRITTEN = "SELECT pg_catalog.to_regclass($1::text)::oid"

# Its kind, its approximate number of rows, and what may hide rows from readers or bypass triggers.
TABLE = """
SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, c.relpersistence::text AS persistence,
  row_security_active(c.oid) AS guarded, c.relispartition AS part,
  pg_get_userbyid(c.relowner) AS owner, pg_has_role(c.relowner, 'USAGE') AS ours,
  EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid) AS inherits,
  EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid AND c.relkind = 'r') AS inherited,
  EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class f ON f.oid = p.relid AND f.relkind = 'f') AS remote,
  (SELECT coalesce(sum(greatest(p.reltuples, 0)), 0) FROM pg_class p WHERE p.relkind <> 'p' AND (
    p.oid = c.oid OR p.oid IN (SELECT t.relid FROM pg_partition_tree(c.oid) t))) AS about
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1
"""

# Types are written without their lengths: a key is compared as it is, never truncated.
COLUMNS = """
SELECT a.attname AS name, format_type(a.atttypid, -1) AS type, coalesce(b.typname, t.typname) AS base,
  n.nspname AS type_schema, a.attnotnull AS filled, a.attgenerated::text AS generated,
  CASE WHEN b.oid IS NULL THEN a.atttypmod ELSE t.typtypmod END AS size
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = nullif(t.typbasetype, 0)
JOIN pg_namespace n ON n.oid = coalesce(b.typnamespace, t.typnamespace)
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

# Unique indexes that can find one row by key and walk all rows in key order, with the exact operators they were
# built with: resolved by symbol, another operator might match better.
UNIQUE = """
SELECT array_agg(a.attname::text ORDER BY k.place) AS columns,
  array_agg(CASE WHEN l.oid IS NOT NULL THEN format('%I.%I', s.nspname, l.collname) END ORDER BY k.place) AS collations,
  array_agg(format('OPERATOR(%I.%s)', e.nspname, q.oprname) ORDER BY k.place) AS equals,
  array_agg(format('OPERATOR(%I.%s)', b.nspname, g.oprname) ORDER BY k.place) AS beyonds
FROM pg_index i, unnest(i.indkey::int2[], i.indcollation::oid[], i.indclass::oid[])
  WITH ORDINALITY k (number, sorting, class, place)
JOIN pg_attribute a ON a.attnum = k.number JOIN pg_opclass o ON o.oid = k.class
JOIN pg_amop m ON (m.amopfamily, m.amoplefttype, m.amoprighttype, m.amopstrategy)
  = (o.opcfamily, o.opcintype, o.opcintype, 3)
JOIN pg_operator q ON q.oid = m.amopopr JOIN pg_namespace e ON e.oid = q.oprnamespace
JOIN pg_amop h ON (h.amopfamily, h.amoplefttype, h.amoprighttype, h.amopstrategy)
  = (o.opcfamily, o.opcintype, o.opcintype, 5)
JOIN pg_operator g ON g.oid = h.amopopr JOIN pg_namespace b ON b.oid = g.oprnamespace
LEFT JOIN pg_collation l ON l.oid = k.sorting LEFT JOIN pg_namespace s ON s.oid = l.collnamespace
WHERE i.indrelid = $1 AND a.attrelid = $1 AND k.place <= i.indnkeyatts AND i.indisunique AND i.indisvalid
  AND NOT i.indisexclusion AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indisprimary, i.indnkeyatts HAVING bool_and(o.opcdefault) AND count(*) = i.indnkeyatts
ORDER BY i.indisprimary DESC
"""
# Schemas in which the priority's functions may be looked up: in others, anyone could create a function that matches
# better, and it would run with our rights.
SEARCHED = """
SELECT n.nspname FROM pg_class t, pg_namespace n WHERE t.oid = $1 AND n.nspname IN ('public', $2::name) AND NOT EXISTS (
  SELECT FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a LEFT JOIN pg_roles r ON r.oid = a.grantee
  WHERE a.privilege_type = 'CREATE' AND r.rolsuper IS NOT TRUE AND a.grantee NOT IN (
    t.relowner, current_user::regrole, 'pg_database_owner'::regrole,
    (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())))
ORDER BY n.nspname = 'public'
"""
COUNT = "SELECT count(*) FROM (SELECT FROM {table} LIMIT {most}) r"
COUNTED = 100_000  # rows: larger tables are estimated

VECTORS = ("vector", "halfvec")
VIRTUAL = "v"  # computed when read: triggers cannot see it


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: str
    base: str  # the type under a domain
    type_schema: str
    filled: bool  # never NULL
    size: int
    generated: str
    collation: str | None = None  # of the unique index, as SQL writes it; also the operators below
    equal: str = ""
    beyond: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table that can be attached."""

    oid: int
    schema: str
    name: str
    rows: int
    columns: Mapping[str, Column]
    key: tuple[Column, ...]  # in the order of the unique index
    searched: tuple[str, ...]  # schemas in which the priority's functions are looked up

    @property
    def table(self) -> str:
        """Return its quoted name."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


async def inspect_table(db: Connection, wanted: Attachment, dimensions: int | None) -> Source:
    """Find a table, check all requirements, and count its rows."""
    source = await check_table(db, await _find(db, wanted.table), wanted, dimensions)
    if source.rows > COUNTED:
        return source
    rows = await db.fetchval(COUNT.format(table=source.table, most=COUNTED))
    return replace(source, rows=max(rows, source.rows))


async def check_table(db: Connection, oid: int, wanted: Attachment, dimensions: int | None) -> Source:
    """Check all requirements on a table."""
    await db.execute(OWN_PATH_HERE)  # so that types are written with their schemas
    found = await db.fetchrow(TABLE, oid)
    if found is None:
        raise NotFound(f"there is no table {wanted.table!r} any more")
    _check_kind(wanted.table, found)
    columns = {row["name"]: Column(**row) for row in await db.fetch(COLUMNS, oid)}
    _check_columns(wanted, columns)
    key = _key(wanted, columns, await db.fetch(UNIQUE, oid))
    _check_target(wanted, columns, dimensions)
    source = Source(
        oid=oid,
        schema=found["schema"],
        name=found["name"],
        rows=int(found["about"]),
        columns=columns,
        key=key,
        searched=tuple(row["nspname"] for row in await db.fetch(SEARCHED, oid, found["schema"])),
    )
    await _check_priority(db, wanted, source)
    return source


async def _find(db: Connection, name: str) -> int:
    try:
        async with db.transaction():
            await db.execute("SET LOCAL search_path TO DEFAULT")  # a bare name resolves as it does for this user
            oid = await db.fetchval(BY_NAME, name) or await db.fetchval(AS_WRITTEN, name)
    except asyncpg.PostgresError:  # it is not a name at all
        oid = None
    if oid is None:
        raise NotFound(f"there is no table {name!r}: write NAME or SCHEMA.NAME, as it is")
    return int(oid)


def _check_kind(name: str, found: Any) -> None:  # noqa: ANN401 a row
    if found["kind"] not in {"r", "p"}:
        raise Invalid(f"{name} is no table: only tables and partitioned tables have triggers that see every change")
    if found["persistence"] == "t":
        raise Invalid(f"{name} is a temporary table: nobody but this session could read it")
    if found["schema"] == "embedq":
        raise Invalid(f"{name} is one of embedq's own tables")
    if found["part"]:
        raise Invalid(
            f"{name} is a partition, and changes made through its parent would not be seen: attach the parent"
        )
    if found["inherited"] or found["inherits"]:
        whose = f"other tables inherit from {name}" if found["inherited"] else f"{name} inherits from another table"
        raise Invalid(f"{whose}, and changes made through the parent would not be seen: use partitions")
    if found["remote"]:
        raise Invalid(f"a partition of {name} is a foreign table, whose changes cannot be seen")
    if not found["ours"]:
        raise Invalid(
            f"{name} belongs to {found['owner']}, and only a table's owner may drop its triggers again: connect as "
            f"that role, or as a member of it (GRANT {quoted(found['owner'])} TO …)"
        )
    if found["guarded"]:
        raise Invalid(f"row security hides rows of {name} from this user: connect as its owner, or with BYPASSRLS")


def _check_columns(wanted: Attachment, columns: Mapping[str, Column]) -> None:
    read = (*wanted.text, *wanted.attributes, *([wanted.tenant] if wanted.tenant else []))
    for name in (*wanted.key, *read):
        if name not in columns:
            raise Invalid(f"{wanted.table} has no column {name!r}; it has {', '.join(columns)}")
    for name in read:
        if columns[name].generated == VIRTUAL:
            raise Invalid(f"{name!r} is a virtual column, whose changes cannot be seen: make it STORED")
        if name == wanted.into:
            raise Invalid(f"{name!r} cannot be read from and written to")
        if columns[name].base in VECTORS:
            raise Invalid(f"{name!r} is {columns[name].type}, which is no text")
    if not wanted.text or len(set(wanted.text)) != len(wanted.text):
        raise Invalid("the text needs one or more columns, each named once")


def _key(wanted: Attachment, columns: Mapping[str, Column], unique: Sequence[Any]) -> tuple[Column, ...]:
    if not wanted.key or len(set(wanted.key)) != len(wanted.key):
        raise Invalid("the key needs one or more columns, each named once")
    index = next((row for row in unique if set(row["columns"]) == set(wanted.key)), None)
    listed = ", ".join(wanted.key)
    if index is None:
        raise Invalid(f"{wanted.table} has no unique index over ({listed}): a key must name one row, and find it")
    loose = [name for name in wanted.key if not columns[name].filled]
    if loose:
        raise Invalid(f"key columns may not be NULL: ALTER TABLE … ALTER {', '.join(map(quoted, loose))} SET NOT NULL")
    for name in wanted.key:
        if columns[name].base == "money" or columns[name].base.startswith("reg"):
            raise Invalid(
                f"{name!r} is {columns[name].type}, which is written otherwise in other sessions: use another"
            )
    parts = zip(index["columns"], index["collations"], index["equals"], index["beyonds"], strict=True)
    return tuple(
        replace(columns[name], collation=collation, equal=equal, beyond=beyond)
        for name, collation, equal, beyond in parts
    )


def _check_target(wanted: Attachment, columns: Mapping[str, Column], dimensions: int | None) -> None:
    if wanted.into is None:
        return
    target = columns.get(wanted.into)
    size = f"vector({dimensions or 'n'})"
    if target is None:
        statement = f"ALTER TABLE {wanted.table} ADD COLUMN {quoted(wanted.into)} {size}"
        raise Invalid(f"{wanted.table} has no column {wanted.into!r}: make it first, {statement}")
    if target.base not in VECTORS or target.generated:
        kind = "a generated column" if target.generated else target.type
        raise Invalid(f"{wanted.into!r} is {kind}: vectors go into a column of type {size}")
    if target.size > 0 and dimensions is not None and target.size != dimensions:
        raise Invalid(f"{wanted.into!r} holds {target.size} numbers, this embedder gives {dimensions}: make it {size}")
    if wanted.into in wanted.key:
        raise Invalid(f"{wanted.into!r} cannot be read from and written to")


async def _check_priority(db: Connection, wanted: Attachment, source: Source) -> None:
    if wanted.priority is None:
        return
    try:
        async with db.transaction():
            await db.execute(f"SET LOCAL search_path = {path(source)}")
            await db.fetch(
                f"SELECT CASE WHEN true THEN {lane(wanted.priority, source)} END FROM {source.table} r LIMIT 0"
            )
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:  # the driver itself refuses parameters
        said = str(error).partition("\n")[0]  # hints mention names that the user did not write
        raise Invalid(f"the priority {wanted.priority!r} is no expression over a row: {said}") from error


def lane(priority: str, source: Source) -> str:
    """Write an expression over a row so that it sees only the row's columns, and cannot break out of its place."""
    return f"(SELECT (\n{priority}\n)::text FROM (SELECT r.*) {quoted(source.name)})"


def path(source: Source) -> str:
    """Return where names in a priority are looked up: system schemas first, and none that others can write to."""
    schemas = dict.fromkeys(["pg_catalog", *source.searched, "pg_temp"])
    return ", ".join(quoted(schema) for schema in schemas)
