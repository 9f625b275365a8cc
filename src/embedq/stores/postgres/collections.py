"""Collections and spaces."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from embedq.errors import Conflict, Invalid, NotFound, StoreBusy, StoreError
from embedq.model import Collection, Declaration, EmbedderName, NewRecord, Priority, RecordId, Space, SpaceId
from embedq.policy.texts import Limits, compose, hash_of
from embedq.stores.columns import read_attributes, read_retry, read_text_from, write_retry, write_text_from
from embedq.stores.postgres import putting
from embedq.stores.postgres.catalogue import FIND, find, made
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database

SPACE = "s.provider, s.model, s.asked, s.dimensions, s.version"
LIST = f"""
SELECT c.name, c.text_from, c.priority, c.retry, c.language, c.created_at, {SPACE}
FROM embedq.collection c JOIN embedq.space s ON s.id = c.space WHERE c.name IS NOT NULL ORDER BY c.name COLLATE "C"
"""

# Spaces that live collections use.
SPACES = f"""
SELECT {SPACE} FROM embedq.space s
WHERE s.id IN (SELECT space FROM embedq.collection WHERE name IS NOT NULL) ORDER BY s.id
"""

# One declaration at a time; and no put into a collection while its definition changes.
LOCK_DECLARING = "SELECT pg_advisory_xact_lock(1701667444, 0)"
LOCK_COLLECTION = "SELECT pg_try_advisory_xact_lock(1701667441, $1)"

SPACE_OF = """
SELECT id FROM embedq.space WHERE provider = $1 AND model = $2 AND asked = $3 ORDER BY version DESC LIMIT 1
"""
CREATE_SPACE = "INSERT INTO embedq.space (provider, model, asked) VALUES ($1, $2, $3) RETURNING id"

# Revisions start at random: a writer may have cached a collection of a dropped schema, with this name and number.
CREATE = """
INSERT INTO embedq.collection (name, space, text_from, priority, retry, revision)
VALUES ($1, $2, $3, $4, $5, floor(random() * 1000000000)::int)
"""
CHANGE = """
UPDATE embedq.collection SET revision = revision + 1, space = $2, text_from = $3, priority = $4, retry = $5
WHERE id = $1
"""
SET_LANGUAGE = "SELECT embedq.set_language($1, $2)"
CHANGED = "SELECT embedq.note_change()"
FIX = "SELECT embedq.learn($1, $2)"
HAS_RECORDS = "SELECT EXISTS (SELECT FROM embedq.record WHERE collection = $1 AND valid_to IS NULL)"
LEARN = "SELECT embedq.learn(embedq.space_number($1), $2)"
DROP = "UPDATE embedq.collection SET name = NULL, recompose = NULL, revision = revision + 1 WHERE id = $1"

# A collection whose texts must be recomposed, and its next records.
TO_RECOMPOSE = """
SELECT id, name, revision, space, text_from, priority, retry, recompose FROM embedq.collection
WHERE recompose IS NOT NULL AND name IS NOT NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
NEXT_TO_RECOMPOSE = """
SELECT id FROM embedq.record WHERE collection = $1 AND id > $2 AND valid_to IS NULL ORDER BY id LIMIT $3
"""
HOLD = """
SELECT id, hash, tenant, attributes FROM embedq.record
WHERE collection = $1 AND id = ANY ($2) AND valid_to IS NULL ORDER BY rid FOR NO KEY UPDATE
"""
RECOMPOSED = "UPDATE embedq.collection SET recompose = $2 WHERE id = $1"
REINDEX = "SELECT embedq.reindex_words($1)"
COUNT_WORDS = "SELECT embedq.count_words($1)"
SAMPLE = 20_000  # records whose words are counted
REINDEXED = 200  # records that are locked at a time

WAIT_SECONDS, PAUSE = 30.0, 0.05  # seconds for writers under way to end, and between two looks


async def listing(database: Database) -> list[Collection]:
    """List the collections by name."""
    return [_collection(row) for row in await database.fetch(LIST)]


async def spaces(database: Database) -> list[Space]:
    """List the spaces in use."""
    return [read_space(row) for row in await database.fetch(SPACES)]


async def declare(database: Database, wanted: Declaration) -> None:
    """Create or change a collection. `recompose` updates the texts later."""
    for _ in range(round(WAIT_SECONDS / PAUSE)):
        async with database.transaction() as db:
            if await declare_on(db, wanted):
                database.catalogue.forget(wanted.name)
                return
        await asyncio.sleep(PAUSE)
    raise StoreError(
        f"a transaction that puts into {wanted.name!r} is open for too long: nothing was changed; try again"
    )


async def declare_on(db: Connection, wanted: Declaration) -> bool:
    """Declare, unless a writer is active that has cached the old collection."""
    await db.execute(LOCK_DECLARING)
    space = await _ensure_space(db, wanted.embedder)
    texts = write_text_from(wanted.text_from)
    settled = (space, texts, int(wanted.priority), write_retry(wanted.retry))
    row = await db.fetchrow(FIND, wanted.name)
    if row is None:
        await db.execute(CREATE, wanted.name, *settled)
        await db.execute(SET_LANGUAGE, wanted.name, wanted.language)
        await db.execute(CHANGED)
        return True
    if (row["space"], row["text_from"], row["priority"], row["retry"], row["language"]) == (*settled, wanted.language):
        return True
    writes_same = (row["space"], row["text_from"], row["language"]) == (space, texts, wanted.language)
    if not writes_same and not await db.fetchval(LOCK_COLLECTION, row["id"]):
        return False
    if row["attached"] is not None and (row["space"], row["text_from"]) != settled[:2]:
        raise Conflict(f"collection {wanted.name!r} is attached to {row['attached']}: detach it first")
    if row["space"] != space and await db.fetchval(HAS_RECORDS, row["id"]):
        raise Conflict(f"collection {wanted.name!r} has records of another embedder: changing it is a migration")
    await db.execute(CHANGE, row["id"], *settled)
    await db.execute(SET_LANGUAGE, wanted.name, wanted.language)
    await db.execute(CHANGED)
    if row["text_from"] != texts and texts is not None:
        await db.execute(RECOMPOSED, row["id"], "")
    return True


async def drop(database: Database, name: str) -> None:
    """Free a collection's name; the rest is removed step by step."""
    for _ in range(round(WAIT_SECONDS / PAUSE)):
        async with database.transaction() as db:
            found = await find(db, name)
            if found.attached is not None:
                raise Conflict(f"collection {name!r} is attached to {found.attached}: `embedq detach {name}` drops it")
            if await db.fetchval(LOCK_COLLECTION, found.id):
                await db.execute(DROP, found.id)
                await db.execute(CHANGED)
                database.catalogue.forget(name)
                return
        await asyncio.sleep(PAUSE)
    raise StoreError(f"a transaction that puts into {name!r} is open for too long: nothing was dropped; try again")


async def recompose(database: Database, limit: int, limits: Limits, now: datetime | None) -> int:
    """Recompose some texts after a change of `text_from`, and arm those that changed; 0 when none is left."""
    return await database.write(lambda db: _recompose(db, limit, limits, now), repeat=True)


async def _recompose(db: Connection, limit: int, limits: Limits, now: datetime | None) -> int:
    async with db.transaction():
        row = await db.fetchrow(TO_RECOMPOSE)
        if row is None:
            return 0
        collection = made(row)
        ids = [found["id"] for found in await db.fetch(NEXT_TO_RECOMPOSE, collection.id, row["recompose"], limit)]
        held = await db.fetch(HOLD, collection.id, ids)
        changed = [record for found in held if (record := _recomposed(collection.text_from, found)) is not None]
        if changed:
            await putting.put_on(db, collection, changed, limits, now, putting.receipts, notify=True)
        await db.execute(RECOMPOSED, collection.id, ids[-1] if len(ids) == limit else None)
    return len(ids) or 1


async def index_words(database: Database, limit: int) -> int:
    """Index some words anew after a change of language, or count those of a collection; 0 when nothing is left."""
    try:
        done = int(await database.call(REINDEX, min(limit, REINDEXED)))
    except StoreBusy:  # an application holds one of the records: the others are not kept waiting with it
        return 0
    return done or int(await database.call(COUNT_WORDS, SAMPLE))


def _recomposed(text_from: Sequence[str] | None, row: Any) -> NewRecord | None:  # noqa: ANN401 a row
    """Recompose one text. A record that has none of the new attributes keeps its text."""
    attributes = read_attributes(row["attributes"])
    try:
        text = compose(text_from, None, attributes)
    except Invalid:
        return None
    if hash_of(text) == row["hash"]:
        return None
    return NewRecord(id=RecordId(row["id"]), attributes=attributes, tenant=row["tenant"])


async def learn(database: Database, space: SpaceId, dimensions: int) -> int:
    """Fix a space's dimensions by its first valid answer."""
    fixed = await database.call(LEARN, space, dimensions)
    if fixed is None:
        raise NotFound(f"no space {space}")
    return int(fixed)


async def _ensure_space(db: Connection, embedder: EmbedderName) -> int:
    key = (embedder.provider, embedder.model, embedder.dimensions or 0)
    id_ = await db.fetchval(SPACE_OF, *key)
    if id_ is None:
        id_ = await db.fetchval(CREATE_SPACE, *key)
        if embedder.dimensions:
            await db.execute(FIX, id_, embedder.dimensions)
    return int(id_)


def _collection(row: Any) -> Collection:  # noqa: ANN401 a row
    space = read_space(row)
    declaration = Declaration(
        name=row["name"],
        embedder=space.embedder,
        text_from=read_text_from(row["text_from"]),
        priority=Priority(row["priority"]),
        retry=read_retry(row["retry"]),
        language=row["language"],
    )
    return Collection(declaration=declaration, space=space, created_at=row["created_at"])


def read_space(row: Any) -> Space:  # noqa: ANN401 a row
    """Read a space's columns."""
    embedder = EmbedderName(provider=row["provider"], model=row["model"], dimensions=row["asked"] or None)
    return Space(embedder=embedder, dimensions=row["dimensions"], version=row["version"])
