"""Who builds the ANN index, and when: one at a time, over what was broken off, behind a pooler too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from embedq.errors import StoreError
from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.index import is_due
from embedq.telemetry import Event, Facts, Telemetry
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration, done, take, write_many

WORTH = 40
PATIENCE = 120  # CREATE INDEX CONCURRENTLY waits for the transactions of other tests too
INDEX = """
SELECT i.indexrelid::int AS id, i.indisvalid AS valid FROM pg_index i
WHERE i.indexrelid = to_regclass('embedq.vector_1_nearest')
"""
BREAK = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'embedq.vector_1_nearest'::regclass"
TOUCH = "UPDATE embedq.vector_1 SET truncated = truncated"
END_BUILDING = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND datname = current_database() AND pid <> pg_backend_pid()
"""
CLAIMS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1701667445
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
BUILDERS = "SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database()"


class Ear:
    """Hears what is told of indexes."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.facts: list[dict[str, Any]] = []

    def __call__(self, event: Event, level: str, facts: Facts) -> None:
        """Take an event in."""
        if event is Event.INDEX:
            self.facts.append({"level": level, **facts})

    @property
    def acts(self) -> list[str]:
        """List what was done, in order."""
        return [facts["act"] for facts in self.facts]


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest_asyncio.fixture(params=["direct", "pooled"])
async def store(request: pytest.FixtureRequest, postgres_url: str, ear: Ear) -> AsyncIterator[PostgresStore]:
    """Open a store that indexes early and has vectors enough."""
    url = request.getfixturevalue("pooled_url") if request.param == "pooled" else postgres_url
    opened = await PostgresStore.open(url, index_from=WORTH, telemetry=Telemetry(ear))
    collection = await opened.declare(declaration(), now=NOON)
    await opened.learn(collection.space.id, DIMENSIONS)
    await write_many(opened, WORTH)
    await work(opened, WORTH)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def other(store: PostgresStore, postgres_url: str) -> AsyncIterator[PostgresStore]:
    """Open the same database as another process would, without a pooler."""
    del store
    opened = await PostgresStore.open(postgres_url, index_from=WORTH)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def db(store: PostgresStore, postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    del store
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@asynccontextmanager
async def held_up(store: PostgresStore, url: str, db: asyncpg.Connection) -> AsyncIterator[asyncio.Task[int]]:
    """Let a store begin to build, and its building wait for a transaction until this is left."""
    writer = await asyncpg.connect(url)
    transaction = writer.transaction()
    await transaction.start()
    await writer.execute(TOUCH)
    building = asyncio.create_task(store.finish(now=NOON))
    async with asyncio.timeout(PATIENCE):  # until it is there for all to see, and no claim is needed any more
        while await index_of(db) is None or await db.fetchval(CLAIMS):  # noqa: ASYNC110 the server tells nobody
            await asyncio.sleep(0.02)
    yield building
    await transaction.rollback()
    await writer.close()


async def work(store: PostgresStore, count: int) -> None:
    """Embed so many."""
    await store.settle([done(lease) for lease in await take(store, limit=count)], now=NOON)


async def index_of(db: asyncpg.Connection) -> tuple[int, bool] | None:
    """Look at the index: its number, and whether it is whole."""
    row = await db.fetchrow(INDEX)
    return None if row is None else (row["id"], row["valid"])


@pytest.mark.parametrize(
    ("stored", "to_come", "due"),
    [
        (99, 0, False),  # not worth it
        (100, 0, True),
        (100, 99, True),
        (100, 100, False),  # in the middle of a backfill
        (999, 5_000, False),
        (1_000, 5_000, True),  # long overdue: the queue may never get short
    ],
)
def test_an_index_waits_for_a_long_queue_but_not_for_ever(stored: int, to_come: int, *, due: bool) -> None:
    """While more is to come than there is, it waits, up to ten times the vectors that are worth an index."""
    assert is_due(stored, to_come, 100) is due


async def test_nothing_is_built_in_the_middle_of_a_backfill(store: PostgresStore, ear: Ear) -> None:
    """Leased jobs count as still to come; as soon as fewer are left than are stored, it is built."""
    await write_many(store, WORTH + 10, prefix="more")
    leases = await take(store, limit=WORTH)
    assert await store.finish(now=NOON) == 0
    await store.settle([done(lease) for lease in leases[:10]], now=NOON)

    assert await store.finish(now=NOON) == 1
    assert ear.acts == ["building", "built"]


async def test_beginning_and_end_are_told(store: PostgresStore, ear: Ear) -> None:
    """Whoever wonders what the server is busy with finds it in the log."""
    await store.finish(now=NOON)

    begin, end = ear.facts
    named = {"index": "vector_1_nearest", "space": "fake:fake", "collections": ["notes"], "vectors": WORTH}
    assert begin == {"level": "info", "act": "building", **named}
    assert end == {"level": "info", "act": "built", **named, "seconds": end["seconds"]}
    assert end["seconds"] > 0


async def test_a_building_that_was_broken_off_is_taken_up(
    store: PostgresStore, other: PostgresStore, db: asyncpg.Connection
) -> None:
    """An index that nobody builds any more is replaced, also by a process that has no session."""
    assert await other.finish(now=NOON) == 1
    await db.execute(BREAK)
    broken = await index_of(db)
    assert broken is not None

    assert await store.finish(now=NOON) == 1

    found = await index_of(db)
    assert found is not None
    assert (found[0] != broken[0], found[1]) == (True, True)
    assert await store.finish(now=NOON) == 0


async def test_a_building_under_way_is_left_alone(
    store: PostgresStore, other: PostgresStore, postgres_url: str, db: asyncpg.Connection, ear: Ear
) -> None:
    """While one waits for an open transaction, no other drops what it builds or builds beside it."""
    async with held_up(store, postgres_url, db) as building:
        begun = await index_of(db)
        assert begun is not None
        assert not begun[1]

        async with asyncio.timeout(PATIENCE):  # nor does it wait
            assert [await other.finish(now=NOON) for _ in range(3)] == [0, 0, 0]
        assert await index_of(db) == begun

    assert await building == 1
    assert await index_of(db) == (begun[0], True)
    assert ear.acts == ["building", "built"]


async def test_of_many_that_begin_at_once_one_builds(
    store: PostgresStore, other: PostgresStore, postgres_url: str, db: asyncpg.Connection
) -> None:
    """The others neither wait for it nor undo it."""
    stores = [store, other, *[await PostgresStore.open(postgres_url, index_from=WORTH) for _ in range(3)]]

    built = await asyncio.gather(*(each.finish(now=NOON) for each in stores))

    assert sorted(built) == [0, 0, 0, 0, 1]
    found = await index_of(db)
    assert found is not None
    assert found[1]
    await asyncio.gather(*(each.close() for each in stores[2:]))


async def test_a_building_that_fails_is_told_and_rests(
    store: PostgresStore, other: PostgresStore, postgres_url: str, db: asyncpg.Connection, ear: Ear
) -> None:
    """The process that failed leaves the server in peace for a while; another may take it up."""
    async with held_up(store, postgres_url, db) as building:
        assert await db.fetchval(END_BUILDING) == 1
        with pytest.raises(StoreError):
            await building

    assert ear.acts == ["building", "not_built"]
    assert await store.finish(now=NOON) == 0
    assert await other.finish(now=NOON) == 1


@pytest.mark.parametrize("store", ["direct"], indirect=True)
async def test_no_time_out_of_the_server_ends_a_building(
    store: PostgresStore, postgres_url: str, db: asyncpg.Connection
) -> None:
    """It takes as long as it takes, whatever an administrator has set for the usual statement."""
    name = await db.fetchval("SELECT current_database()")
    await db.execute(f"ALTER DATABASE {name} SET statement_timeout = '300ms'")

    async with held_up(store, postgres_url, db) as building:
        await asyncio.sleep(0.5)

    assert await building == 1


async def test_a_stop_ends_the_building(
    store: PostgresStore, postgres_url: str, db: asyncpg.Connection, ear: Ear
) -> None:
    """The server is not left at work for nobody: it has let go when the stop is over."""
    async with held_up(store, postgres_url, db) as building:
        building.cancel()
        await asyncio.gather(building, return_exceptions=True)

        assert ear.acts == ["building", "not_built"]
        async with asyncio.timeout(PATIENCE):
            while await db.fetchval(BUILDERS):  # noqa: ASYNC110 the server tells nobody
                await asyncio.sleep(0.02)
