"""What a process remembers of a schema that was dropped counts for nothing in the one that was begun in its place."""

from dataclasses import replace
from datetime import timedelta

import asyncpg

from embedq.model import NewRecord, RecordId, RetryPolicy
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration, take, write

PATIENT = RetryPolicy(base=timedelta(seconds=7), max_attempts=9)


async def begin_anew(db: asyncpg.Connection, url: str) -> PostgresStore:
    """Drop the schema, and install it again by another process."""
    await db.execute("DROP SCHEMA embedq CASCADE")
    return await PostgresStore.open(url)


async def test_leases_are_of_collections_as_they_are_now(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Though their numbers and the count of changes came again: a lease has the new name and the new retry policy."""
    await write(store, "A")
    [before] = await take(store)

    other = await begin_anew(db, postgres_url)
    made = await other.declare(replace(declaration("others"), retry=PATIENT), now=NOON)
    await other.learn(made.space.id, DIMENSIONS)
    await other.put("others", [NewRecord(id=RecordId("b"), text="B")], now=NOON)
    [lease] = await take(store)

    assert (before.collection, lease.collection, lease.retry) == ("notes", "others", PATIENT)
    await other.close()


async def test_a_put_makes_texts_as_the_collection_says_now(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Name, number and revision are those of before, `text_from` is not: the text is made of the new attributes."""
    await store.declare(replace(declaration("pages"), text_from=("title",)), now=NOON)
    page = NewRecord(id=RecordId("p"), attributes={"title": "Loom", "body": "Weaving"})
    await store.put("pages", [page], now=NOON)

    other = await begin_anew(db, postgres_url)
    await other.declare(declaration(), now=NOON)
    await other.declare(replace(declaration("pages"), text_from=("body",)), now=NOON)
    await store.put("pages", [page], now=NOON)

    assert [record.text for record in await other.get("pages", [page.id])] == ["Weaving"]
    await other.close()
