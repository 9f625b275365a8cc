"""Writers that wait for an application's transaction leave everybody else room to work."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from embedq.errors import StoreBusy
from embedq.model import Done, JobFilter, NewRecord, Patch, Query, RecordId
from embedq.stores.postgres import PostgresStore, database
from embedq.stores.postgres.pool import MOST
from embedq.testing.stores.stage import DIMENSIONS, NOON, NOTES, declaration, done, take, vector_of, write, write_many

SOON = 5.0  # seconds: far less than a writer waits
CROWD = 50
OURS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'embedq'"
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"

Act = Callable[[PostgresStore], Awaitable[object]]


async def _cancel(store: PostgresStore) -> None:
    """Cancel the job of the one record."""
    [job] = (await store.jobs(JobFilter())).items
    await store.cancel(job.id, now=NOON)


HELD: dict[str, Act] = {
    "put": lambda store: write(store, "mine", "held"),
    "patch": lambda store: store.patch(NOTES, RecordId("held"), Patch(text="mine"), now=NOON),
    "delete": lambda store: store.delete(NOTES, [RecordId("held")], now=NOON),
    "enqueue": lambda store: store.enqueue(NOTES, [RecordId("held")], force=True, now=NOON),
    "cancel": _cancel,
    "recount": lambda store: store.recount(NOTES),
}


@asynccontextmanager
async def holding(store: PostgresStore, url: str) -> AsyncIterator[None]:
    """Hold the record `held` in an application's transaction, committed at the end."""
    application = await asyncpg.connect(url)
    try:
        async with application.transaction():
            await store.put(NOTES, [NewRecord(id=RecordId("held"), text="theirs")], now=NOON, connection=application)
            yield
    finally:
        await application.close()


@pytest.fixture(params=[False, True], ids=["direct", "pooler"])
async def either(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[PostgresStore]:
    """Open a store whose connections keep settings, and one whose do not."""
    opened = await PostgresStore.open(postgres_url, pooler=request.param)
    collection = await opened.declare(declaration(), now=NOON)
    await opened.learn(collection.space.id, DIMENSIONS)
    yield opened
    await opened.close()


async def crowd_waits(db: asyncpg.Connection) -> None:
    """Wait until writers wait for a lock."""
    async with asyncio.timeout(SOON):
        while not await db.fetchval(WAITS):  # noqa: ASYNC110 only the database knows
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("postgres_version", [18], indirect=True)
async def test_a_crowd_at_one_held_record_stops_nobody_else(either: PostgresStore, postgres_url: str) -> None:
    """Fifty puts wait for one transaction; search, settle, lease, status and puts of others go on."""
    db = await asyncpg.connect(postgres_url)
    await write(either, "before", "held")
    await write_many(either, 10)
    leases = await take(either, limit=5)
    async with holding(either, postgres_url):
        crowd = [asyncio.create_task(write(either, f"mine {number}", "held")) for number in range(CROWD)]
        await crowd_waits(db)
        for round_ in range(3):
            async with asyncio.timeout(SOON):
                await either.search_words(NOTES, "text", Query())
                await either.search_vector(NOTES, vector_of("text"), Query())
                await either.counts()
                await write(either, f"other {round_}", "other")
        async with asyncio.timeout(SOON):
            settled = await either.settle([done(lease) for lease in leases if lease.record_id != "held"], now=NOON)
            more = await take(either, "w2", limit=5)
        assert await db.fetchval(OURS) <= MOST + 1  # and the bell
        waiting = sum(not task.done() for task in crowd)
    async with asyncio.timeout(2 * SOON):
        await asyncio.gather(*crowd)
    await db.close()

    assert waiting == CROWD
    assert len(settled.jobs) >= 4
    assert len(more) == 5


@pytest.mark.parametrize("postgres_version", [18], indirect=True)
@pytest.mark.parametrize("act", HELD)
async def test_a_writer_gives_up_in_the_end_and_says_why(
    either: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Whoever must wait too long is told that a transaction holds the record; nothing was written."""
    monkeypatch.setattr(database, "HELD_SECONDS", 0.4)
    await write(either, "before", "held")

    async with holding(either, postgres_url):
        async with asyncio.timeout(SOON):
            with pytest.raises(StoreBusy, match="open"):
                await HELD[act](either)
        async with asyncio.timeout(SOON):
            await write(either, "other", "other")

    [record] = await either.get(NOTES, [RecordId("held")])
    assert record.text == "theirs"


@pytest.mark.parametrize("postgres_version", [18], indirect=True)
async def test_a_crowd_that_gives_up_is_told_so_too(
    either: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose turn never came end as soon as those who waited for the record."""
    monkeypatch.setattr(database, "HELD_SECONDS", 0.5)
    await write(either, "before", "held")

    async with holding(either, postgres_url), asyncio.timeout(2 * SOON):
        puts = [write(either, f"mine {number}", "held") for number in range(CROWD)]
        ended = await asyncio.gather(*puts, return_exceptions=True)

    assert {type(error) for error in ended} == {StoreBusy}


@pytest.mark.parametrize("postgres_version", [18], indirect=True)
async def test_two_writers_of_one_record_both_write(either: PostgresStore) -> None:
    """What embedq itself holds for a moment is waited for as before."""
    await write_many(either, 200)
    records = [NewRecord(id=RecordId(f"r{number}"), text="the same") for number in range(200)]

    await asyncio.gather(*(either.put(NOTES, records, now=NOON) for _ in range(20)))

    assert {record.text for record in (await either.records(NOTES, limit=1000)).items} == {"the same"}


@pytest.mark.parametrize("postgres_version", [18], indirect=True)
async def test_readers_and_workers_wait_for_locks_as_long_as_it_takes(
    store: PostgresStore, db: asyncpg.Connection
) -> None:
    """A connection that a writer has used waits like any other when a worker gets it."""
    await write(store, "A")
    [lease] = await take(store)
    async with db.transaction():
        await db.execute("LOCK TABLE embedq.vector_1 IN ACCESS EXCLUSIVE MODE")
        settling = asyncio.create_task(store.settle([Done(lease, vector_of("A"))], now=NOON))
        await crowd_waits(db)
        await write(store, "B", "b")
        await asyncio.wait([settling], timeout=0.5)
        assert not settling.done()

    assert len((await settling).jobs) == 1
