"""Install and remove the functions and triggers of an attachment."""

from collections.abc import Iterator, Mapping

import asyncpg

from embedq.attachment import Attachment
from embedq.errors import Invalid
from embedq.stores.postgres import functions
from embedq.stores.postgres.attaching import generated_sql
from embedq.stores.postgres.attaching.source import Source
from embedq.stores.postgres.catalogue import Found
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.quoting import quoted
from embedq.stores.postgres.rights import ISSUE

# The table itself and all its partitions: a write directly to a partition does not fire its parent's triggers.
PARTS = """
SELECT n.nspname AS schema, c.relname AS name, c.oid, c.relkind = 'r' AS has_rows
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = $1 OR c.oid IN (SELECT p.relid FROM pg_partition_tree($1) p) ORDER BY c.oid
"""

# Every trigger of an attachment, on any table.
TRIGGERS = """
SELECT n.nspname AS schema, c.relname AS name, c.oid, t.tgname AS trigger, t.tgenabled::text AS fires
FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid AND f.proname = $1
JOIN pg_namespace e ON e.oid = f.pronamespace AND e.nspname = 'embedq'
JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY c.oid
"""
WRITTEN = "SELECT a.written FROM embedq.attachment a WHERE a.id = $1"
SHAPE = "UPDATE embedq.attachment a SET shape = embedq.shape(a), unfit = $2, written = $3 WHERE a.id = $1"
DISABLED = "D"  # a disabled trigger
NO_PERMISSION = "42501"


async def arrange(db: Connection, number: int, home: Found, wanted: Attachment, source: Source) -> str | None:
    """Create missing functions and triggers; return why some changes would go unnoticed."""
    version = db.get_server_version().major
    await _write_functions(db, generated_sql.functions(number, home.id, home.space, wanted, source, version=version))
    await db.execute(ISSUE)  # a role that may call the trigger function could run it on its own table
    there = await db.fetch(TRIGGERS, f"note_{number}")
    parts = {part["oid"]: part for part in await db.fetch(PARTS, source.oid)}
    for found in there:
        if found["oid"] not in parts:  # it used to be a partition
            await db.execute(f"DROP TRIGGER {quoted(found['trigger'])} ON {_name(found)}")
    rewrite = await db.fetchval(WRITTEN, number) != functions.templates_digest()
    fires = {(found["oid"], found["trigger"]): found["fires"] for found in there}
    for part in parts.values():
        for statement in generated_sql.triggers(number, _name(part), _missing(number, part, fires, rewrite=rewrite)):
            await db.execute(statement)
    disabled = sorted({_name(found) for found in there if found["fires"] == DISABLED and found["oid"] in parts})
    return f"its triggers are disabled: ALTER TABLE {disabled[0]} ENABLE TRIGGER ALL" if disabled else None


def _missing(
    number: int, part: asyncpg.Record, fires: Mapping[tuple[int, str], str], *, rewrite: bool
) -> Iterator[str]:
    """List the triggers that a table or partition lacks, or that fire at the wrong times; disabled ones stay so."""
    for name, (_, when) in generated_sql.TRIGGERS.items():
        found = fires.get((part["oid"], generated_sql.trigger(number, name)))
        if (found != when or rewrite) and found != DISABLED and (part["has_rows"] or name != "row"):
            yield name


async def clear(db: Connection, number: int) -> None:
    """Drop functions and triggers."""
    for found in await db.fetch(TRIGGERS, f"note_{number}"):
        await db.execute(f"DROP TRIGGER {quoted(found['trigger'])} ON {_name(found)}")
    for function in generated_sql.FUNCTIONS:
        await db.execute(f"DROP FUNCTION IF EXISTS embedq.{function.format(id=number)}")


async def remember_shape(db: Connection, number: int, unfit: str | None) -> None:
    """Store the table's current shape, and why it cannot be followed."""
    await db.execute(SHAPE, number, unfit, functions.templates_digest())


async def _write_functions(db: Connection, statements: list[str]) -> None:
    try:
        for statement in statements:
            await db.execute(statement)
    except asyncpg.SyntaxOrAccessError as error:  # an expression that is valid elsewhere may be invalid here
        if error.sqlstate == NO_PERMISSION:
            raise
        raise Invalid(f"the table cannot be read like that: {error}") from error


def _name(row: asyncpg.Record) -> str:
    return f"{quoted(row['schema'])}.{quoted(row['name'])}"
