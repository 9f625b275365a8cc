"""Attach and detach tables."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from embedq.attachment import Attachment
from embedq.errors import Conflict, NotFound, StoreError
from embedq.model import Declaration
from embedq.stores.postgres import collections
from embedq.stores.postgres.attaching.installing import arrange, clear, remember_shape
from embedq.stores.postgres.attaching.source import Source, inspect_table
from embedq.stores.postgres.catalogue import FIND, Found, find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.errors import state_of
from embedq.stores.postgres.rights import become_owner, check_owner

T = TypeVar("T")

COLUMNS = "a.id, a.collection, a.source::oid AS oid, a.keys, a.texts, a.attributes, a.target, a.tenant, a.priority"
OF_COLLECTION = f"SELECT {COLUMNS}, a.made_for FROM embedq.attachment a WHERE a.collection = $1"
CREATE = """
WITH made AS (
  INSERT INTO embedq.attachment (collection, source, keys, texts, attributes, target, tenant, priority,
    made_for, rows, unnoted)
  VALUES ($1, $2::oid::regclass, $3, $4, $5, $6, $7, $8, $9, $10, (SELECT last_value FROM embedq.unnoted)) RETURNING id)
INSERT INTO embedq.copying (attachment) SELECT id FROM made RETURNING attachment
"""
# A column holds the vectors of one collection, or it would be unclear which text they belong to.
WRITES_INTO = """
SELECT c.name FROM embedq.attachment a JOIN embedq.collection c ON c.id = a.collection
WHERE a.source = $1::oid AND a.target = $2 AND a.collection <> $3
"""
WALK_AGAIN = """
UPDATE embedq.attachment SET walked_to = '', pruned_to = '', seen = 0, rows = $2
WHERE id = $1 AND walked_to IS NULL AND pruned_to IS NULL
"""
# From the start: uncommitted transactions that wrote to a column before it was watched are waited for.
ALTER = """
UPDATE embedq.attachment SET source = $2::oid::regclass, keys = $3, texts = $4, attributes = $5, target = $6,
  tenant = $7, priority = $8, made_for = $9, rows = $10, walked_to = '', pruned_to = '', seen = 0,
  walk_after = pg_current_xact_id(), problem = NULL WHERE id = $1
"""
# What the vector column holds now. It is read after all triggers exist.
ADOPT = """
UPDATE embedq.attachment SET adopting = pg_current_snapshot(), adopted = 0, walked_to = '', seen = 0 WHERE id = $1
"""
IS_THERE = "SELECT EXISTS (SELECT FROM pg_class WHERE oid = $1)"
# Deleted records of the previous collection have no owner: their ids may be keys of the table.
DISOWN = "UPDATE embedq.record SET tenant = NULL WHERE collection = $1 AND tenant IS NOT NULL"
FORGET = [
    f"DELETE FROM embedq.{table} WHERE attachment = $1" for table in ("noted", "unplaced", "refused", "copying")
] + ["DELETE FROM embedq.attachment WHERE id = $1"]
LOCK = "SELECT pg_advisory_xact_lock(1701667446, $1)"
LOCK_SOURCE = "SELECT pg_advisory_xact_lock(1701667447, ($1::bigint & 2147483647)::int)"

LOCK_TIMEOUT = "SET LOCAL lock_timeout = '200ms'"  # waiting for a table's lock blocks its writers
BUSY = "55P03"
WAIT_SECONDS, PAUSE = 30.0, 0.3  # seconds for a table's transactions to end, and between two tries


class Busy(StoreError):
    """The table is locked just now."""


async def attach(
    database: Database, declaration: Declaration, wanted: Attachment, dimensions: int | None, *, adopt: bool
) -> None:
    """Make a table a collection, or change how it is attached."""

    async def work(db: Connection) -> None:
        source = await inspect_table(db, wanted, dimensions)
        before = await db.fetchrow(FIND, declaration.name)
        kept = declaration if before is None else replace(declaration, language=before["language"])
        await _declare(db, kept)
        home = await find(db, declaration.name)
        if dimensions is not None:
            await _fix_dimensions(db, home, dimensions)
        found = await db.fetchrow(OF_COLLECTION, home.id)
        if found is None:
            await _check_free(db, home, before)
            await _check_target(db, home, wanted, source)
            number = await _begin(db, home, wanted, source)
        else:
            number = found["id"]
            await db.execute(LOCK, number)
            await _update(db, home, found, wanted, source)
        if adopt:
            await db.execute(ADOPT, number)

    await _with_lock_retries(database, wanted.table, work)
    database.catalogue.forget(declaration.name)


async def _update(db: Connection, home: Found, found: Any, wanted: Attachment, source: Source) -> None:  # noqa: ANN401 a row
    """Walk every row again; if the attachment changed, rewrite its functions and triggers."""
    before = read(found)
    if source.oid != found["oid"] and await db.fetchval(IS_THERE, found["oid"]):
        raise Conflict(
            f"collection {home.name!r} is attached to {before.table}: name another with --collection, or "
            f"`embedq detach {home.name}` first"
        )
    if source.oid == found["oid"] and _facts(before) == _facts(wanted):
        await db.execute(WALK_AGAIN, found["id"], source.rows)
        return
    await _check_target(db, home, wanted, source)
    await db.execute(ALTER, found["id"], *await _columns(db, wanted, source))
    unfit = await arrange(db, found["id"], home, wanted, source)
    await remember_shape(db, found["id"], unfit)


async def _declare(db: Connection, declaration: Declaration) -> None:
    if not await collections.declare_on(db, declaration):
        raise Busy(f"somebody puts into {declaration.name!r}")


async def _fix_dimensions(db: Connection, home: Found, dimensions: int) -> None:
    """Create the vector storage at once, with the dimensions that the column was checked for."""
    fixed = await db.fetchval(collections.FIX, home.space, dimensions)
    if fixed != dimensions:
        raise Conflict(f"the vectors of this embedder have {fixed} numbers so far, now it gives {dimensions}")


async def _check_free(db: Connection, home: Found, before: Any) -> None:  # noqa: ANN401 a row
    """Refuse a collection that is already used otherwise."""
    composed = before is not None and before["text_from"] is not None
    if composed or await db.fetchval(collections.HAS_RECORDS, home.id):
        raise Conflict(f"collection {home.name!r} has records of its own: name another with --collection")


async def _check_target(db: Connection, home: Found, wanted: Attachment, source: Source) -> None:
    await db.execute(LOCK_SOURCE, source.oid)  # two concurrent attachments would not see each other
    other = await db.fetchval(WRITES_INTO, source.oid, wanted.into, home.id)
    if other is not None:
        raise Conflict(f"{wanted.into!r} holds the vectors of collection {other!r}: name another column with --into")


def _facts(attachment: Attachment) -> tuple[object, ...]:
    """Return what makes two attachments of one table the same."""
    a = attachment
    return (frozenset(a.key), a.text, a.into, a.priority, a.tenant, a.attributes)


async def _begin(db: Connection, home: Found, wanted: Attachment, source: Source) -> int:
    await db.execute(DISOWN, home.id)
    number = int(await db.fetchval(CREATE, home.id, *await _columns(db, wanted, source)))
    await db.execute("UPDATE embedq.collection SET revision = revision + 1 WHERE id = $1", home.id)
    await db.execute(collections.CHANGED)
    unfit = await arrange(db, number, home, wanted, source)
    await remember_shape(db, number, unfit)
    return number


async def _columns(db: Connection, wanted: Attachment, source: Source) -> tuple[object, ...]:
    """Write an attachment as its row keeps it."""
    lists = ([column.name for column in source.key], list(wanted.text), list(wanted.attributes))
    rest = (wanted.into, wanted.tenant, wanted.priority, await made_for(db, source), source.rows)
    return (source.oid, *lists, *rest)


async def made_for(db: Connection, source: Source) -> str:
    """Write a table's name as the attachment stores it."""
    return str(await db.fetchval("SELECT format('%I.%I', $1::text, $2::text)", source.schema, source.name))


async def detach(database: Database, name: str) -> None:
    """Leave a table as it was, and release its collection."""

    async def work(db: Connection) -> None:
        home = await db.fetchrow(FIND, name)
        found = None if home is None else await db.fetchrow(OF_COLLECTION, home["id"])
        if home is None or found is None:
            raise NotFound(f"no table is attached as {name!r}: `embedq attachments` lists those that are")
        await db.execute(LOCK, found["id"])
        await clear(db, found["id"])
        for statement in FORGET:
            await db.execute(statement, found["id"])
        await db.execute(collections.DROP, home["id"])
        await db.execute(collections.CHANGED)

    await _with_lock_retries(database, name, work)
    database.catalogue.forget(name)


async def _with_lock_retries(database: Database, what: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Do work that briefly needs a table lock, without making the table's writers queue behind it."""
    for _ in range(round(WAIT_SECONDS / PAUSE)):
        try:
            async with database.transaction() as db:
                await db.execute(LOCK_TIMEOUT)
                await check_owner(db, "attach and detach tables")
                await become_owner(db)
                return await work(db)
        except StoreError as error:
            if not is_busy(error):
                raise
        await asyncio.sleep(PAUSE * random.uniform(0.5, 1.5))  # noqa: S311 no secret
    raise StoreError(f"{what} is in use by a transaction that does not end: nothing was changed; try again")


def is_busy(error: StoreError) -> bool:
    """Say whether it may succeed a moment later."""
    return isinstance(error, Busy) or (error.__cause__ is not None and state_of(error.__cause__) == BUSY)


def read(row: Any) -> Attachment:  # noqa: ANN401 a row
    """Read an attachment's columns."""
    return Attachment(
        table=row["made_for"],
        key=tuple(row["keys"]),
        text=tuple(row["texts"]),
        into=row["target"],
        priority=row["priority"],
        tenant=row["tenant"],
        attributes=tuple(row["attributes"]),
    )
