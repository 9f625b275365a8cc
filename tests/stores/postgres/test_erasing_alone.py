"""What was removed for good stays so in a corpus whose queue is elsewhere, and nothing else is lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.test_erasing import LEVELS, SOON, A, application

from embedq.model import Lease, NewRecord
from embedq.ports import Store
from embedq.stores.pair import PairStore
from embedq.stores.postgres import PostgresCorpusStore
from embedq.stores.sqlite import SqliteJobStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, NOTES, declaration, done, take_one, write


@pytest_asyncio.fixture
async def pair(postgres_url: str, tmp_path: Path) -> AsyncIterator[Store]:
    """Join a PostgreSQL corpus and a SQLite queue, with one collection, `notes`."""
    corpus = await PostgresCorpusStore.open(postgres_url)
    store = await PairStore.join(corpus, await SqliteJobStore.open(tmp_path / "queue.db"))
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    yield store
    await store.close()


async def is_known(store: Store, lease: Lease) -> bool:
    """Say whether the vector of a lease's text is stored or kept for reuse."""
    return lease.hash in await store.known(lease.space, [lease.hash])


async def overtaken(store: Store, id_: str = "a") -> Lease:
    """Lease a text that is another by now: its vector can only be kept for reuse."""
    await write(store, "A", id_)
    lease = await take_one(store)
    await write(store, "B", id_)
    return lease


@pytest.mark.parametrize("holder", ["put", "delete"])
async def test_what_was_paid_for_is_kept_at_once_though_its_record_is_held(
    pair: Store, postgres_url: str, holder: str
) -> None:
    """An application edits or deletes the record: the vector of the text before is known meanwhile."""
    lease = await overtaken(pair)
    async with application(postgres_url) as connection:
        if holder == "put":
            await pair.put(NOTES, [NewRecord(id=A, text="C")], now=NOON, connection=connection)
        else:
            await pair.delete(NOTES, [A], now=NOON, connection=connection)
        async with asyncio.timeout(SOON):
            await pair.settle([done(lease)], now=NOON)

        assert await is_known(pair, lease)


async def test_nothing_is_kept_beside_an_open_purge(pair: Store, postgres_url: str) -> None:
    """Whether it is committed is not known yet."""
    lease = await overtaken(pair)
    async with application(postgres_url) as connection:
        await pair.delete(NOTES, [A], purge=True, now=NOON, connection=connection)
        async with asyncio.timeout(SOON):
            await pair.settle([done(lease)], now=NOON)

    assert not await is_known(pair, lease)


async def test_a_settle_does_not_wait_for_an_open_purge_of_the_same_text(pair: Store, postgres_url: str) -> None:
    """The purge is just removing the vector that was kept of this text; the other record is none of its business."""
    first = await overtaken(pair)
    await pair.settle([done(first)], now=NOON)
    await write(pair, "A")
    await take_one(pair)  # out of the way of the other
    other = await overtaken(pair, "b")
    async with application(postgres_url) as connection:
        await pair.delete(NOTES, [A], purge=True, now=NOON, connection=connection)

        async with asyncio.timeout(SOON):
            await pair.settle([done(other)], now=NOON)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_purge_meets_what_its_snapshot_does_not_see(pair: Store, postgres_url: str, level: str) -> None:
    """A vector was kept since the transaction began: the purge is refused."""
    lease = await overtaken(pair)
    await write(pair, "A")
    await pair.delete(NOTES, [A], now=NOON)

    async def cross() -> None:
        async with application(postgres_url, level) as connection:
            await pair.settle([done(lease)], now=NOON)
            assert await is_known(pair, lease)
            await pair.delete(NOTES, [A], purge=True, now=NOON, connection=connection)

    with pytest.raises(asyncpg.SerializationError):
        await cross()

    await pair.delete(NOTES, [A], purge=True, now=NOON)
    assert not await is_known(pair, lease)
