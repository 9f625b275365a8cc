"""The few moves that tests of attached tables make."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
import numpy as np

from embedq.attachment import Attached, Attachment
from embedq.model import ContentHash, Done, Lease, RecordId, Vector
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration, done, embed_all, take, vector_of

DOCS = "docs"
WAITING = "SELECT FROM embedq.attachment WHERE walk_after IS NOT NULL"  # for a walk, until transactions have ended
PATIENCE = 120  # a walk waits for every transaction of the server, and other tests have long ones
CREATE = f"CREATE TABLE docs (id int PRIMARY KEY, body text, other int, e vector({DIMENSIONS}))"


async def attach(
    store: PostgresStore,
    table: str = DOCS,
    *,
    key: Sequence[str] = ("id",),
    text: Sequence[str] = ("body",),
    into: str | None = "e",
    name: str = DOCS,
    adopt: bool = False,
    **more: Any,  # noqa: ANN401 each is of its own field's type
) -> Attached:
    """Attach a table."""
    wanted = Attachment(table=table, key=tuple(key), text=tuple(text), into=into, **more)
    return await store.attach(declaration(name), wanted, dimensions=DIMENSIONS if into else None, adopt=adopt)


async def attach_docs(store: PostgresStore, db: asyncpg.Connection, rows: int = 0) -> None:
    """Make a table with so many rows, attach it, and have all of them embedded."""
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, $1) n", rows)
    await attach(store)
    await catch_up(store)


async def gather(store: PostgresStore) -> int:
    """Take over all that tables have noted; answer with how many steps it took."""
    steps = 0
    while await store.gather():
        steps += 1
    return steps


async def catch_up(store: PostgresStore) -> int:
    """Take over all changes and embed them; answer with how many embeddings it took."""
    await gather(store)
    embedded = await embed_all(store)
    await gather(store)
    return embedded


async def pay(store: PostgresStore) -> set[str]:
    """Do a worker's work, who reuses what is known; answer with the texts that had to be embedded."""
    paid: set[str] = set()
    await gather(store)
    while leases := await take(store, limit=100):
        known = await store.known(leases[0].space, [lease.hash for lease in leases])
        paid |= {lease.text for lease in leases if lease.hash not in known}
        await store.settle([_done(lease, known) for lease in leases], now=NOON)
        await gather(store)
    return paid


def _done(lease: Lease, known: Mapping[ContentHash, Vector]) -> Done:
    return done(lease) if lease.hash not in known else Done(lease, known[lease.hash])


async def found_again(store: PostgresStore) -> int:
    """Catch up once a walk was possible: it waits for transactions in other databases of the server too."""
    async with asyncio.timeout(PATIENCE):
        while (await gather(store)) or await store._database.fetch(WAITING):  # noqa: ASYNC110 the server tells nobody
            await asyncio.sleep(0.01)
    return await catch_up(store)


async def mend(store: PostgresStore) -> None:
    """Have tables looked at that have changed their shape, as happens by itself every half minute."""
    store._check_at = 0.0
    await gather(store)


async def records(store: PostgresStore, name: str = DOCS) -> dict[str, str]:
    """Read the text of every record of a collection."""
    found: dict[str, str] = {}
    cursor = None
    while True:
        page = await store.records(name, limit=1000, cursor=cursor)
        found |= {str(record.id): record.text for record in page.items}
        cursor = page.next_cursor
        if cursor is None:
            return found


async def one(store: PostgresStore, name: str = DOCS) -> Attached:
    """Read how an attachment stands."""
    [found] = [attached for attached in await store.attached() if attached.collection == name]
    return found


async def in_step(
    store: PostgresStore,
    db: asyncpg.Connection,
    *,
    rows: str = "SELECT id::text AS id, body AS text, e::text AS e FROM docs",
    name: str = DOCS,
) -> int:
    """Check that records, their vectors and the table's own column all stand for the rows; answer with how many."""
    found = {row["id"]: (row["text"], row["e"]) for row in await db.fetch(rows)}
    texts = {id_: text for id_, (text, _) in found.items() if text and text.strip()}
    assert await records(store, name) == texts
    stored = await store.get(name, [RecordId(id_) for id_ in texts], with_vectors=True)
    assert all(record.vector is not None and np.array_equal(record.vector, vector_of(record.text)) for record in stored)
    wrong = {id_: (text, e) for id_, (text, e) in found.items() if e != written(text)}
    assert wrong == {}
    assert await left(db) == {"noted": 0, "unplaced": 0}
    return len(texts)


def written(text: str | None) -> str | None:
    """Write a text's vector as PostgreSQL does."""
    if not text or not text.strip():
        return None
    return "[" + ",".join(f"{number:g}" for number in vector_of(text)) + "]"


async def left(db: asyncpg.Connection) -> dict[str, int]:
    """Count what is still to be looked at and to be copied."""
    return {name: await db.fetchval(f"SELECT count(*) FROM embedq.{name}") for name in ("noted", "unplaced")}  # noqa: S608 two names
