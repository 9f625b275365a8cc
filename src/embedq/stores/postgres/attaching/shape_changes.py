"""Follow tables that change their shape: a new name, new partitions, other columns."""

from typing import Any

from embedq.errors import Refused, StoreError, StoreUnusable
from embedq.stores.postgres import functions
from embedq.stores.postgres.attaching.attaching import COLUMNS, LOCK_TIMEOUT, is_busy, made_for, read
from embedq.stores.postgres.attaching.installing import arrange, remember_shape
from embedq.stores.postgres.attaching.source import check_table
from embedq.stores.postgres.attaching.templates import DEAF
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.rights import become_owner

CHANGED = f"""
SELECT {COLUMNS}, a.made_for, c.name AS home FROM embedq.attachment a JOIN embedq.collection c ON c.id = a.collection
WHERE (a.shape IS DISTINCT FROM embedq.shape(a) OR a.written IS DISTINCT FROM $1)
"""
LOCK = "SELECT pg_try_advisory_xact_lock(1701667446, $1)"
# It is walked at once. While it could not be followed nothing was noted: transactions that wrote then and are not yet
# committed are waited for, and it is walked again. A wait in progress may be for transactions of another server, which
# this one is a copy of.
FOLLOWED = """
UPDATE embedq.attachment SET made_for = $2, walked_to = '', pruned_to = '', seen = 0,
  walk_after = CASE WHEN unfit IS NOT NULL OR walk_after IS NOT NULL THEN pg_current_xact_id() END WHERE id = $1
"""
UNFIT = "UPDATE embedq.attachment SET unfit = $2 WHERE id = $1"
LEFT = "SELECT home, made_for, owner FROM embedq.changed_tables()"


async def follow_changed(database: Database) -> int:
    """Rewrite functions and triggers of tables that changed, and have them walked; return how many there were.

    A table that is locked is left for the next time: the caller does not wait.
    """
    followed = 0
    for row in await database.fetch(CHANGED, functions.templates_digest()):
        try:
            async with database.transaction() as db:
                await db.execute(LOCK_TIMEOUT)
                await become_owner(db)
                followed += await _follow(db, row["id"])
        except StoreUnusable as error:  # only this table failed; it is retried, and the others are still served
            await database.fetch(UNFIT, row["id"], str(error))
        except StoreError as error:
            if not is_busy(error):
                raise
    return followed


async def left_to_owner(database: Database) -> dict[str, str]:
    """Return by collection which changed tables this role may not alter, and which role may."""
    return {
        row["home"]: f"the table {row['made_for']} has changed its shape, and only {row['owner']} may follow it: let a "
        "worker run as that role"
        for row in await database.fetch(LEFT)
    }


async def _follow(db: Connection, number: int) -> bool:
    """Follow one table, unless another process does."""
    if not await db.fetchval(LOCK, number):
        return False
    row = await db.fetchrow(f"{CHANGED} AND a.id = $2", functions.templates_digest(), number)
    if row is not None:
        await remember_shape(db, number, await _unfit(db, row))
    return row is not None


async def _unfit(db: Connection, row: Any) -> str | None:  # noqa: ANN401 a row
    """Install everything for the table as it is now; return why it cannot be followed."""
    wanted = read(row)
    try:
        async with db.transaction():
            source = await check_table(db, row["oid"], wanted, None)
            unfit = await arrange(db, row["id"], await find(db, row["home"]), wanted, source)
            await db.execute(FOLLOWED, row["id"], await made_for(db, source))
    except Refused as refused:
        await db.execute(DEAF.format(id=row["id"]))
        return str(refused)
    return unfit
