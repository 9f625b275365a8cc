"""Whatever isolation a caller or a pooler brings: what was acknowledged is what is stored."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import asyncpg
import psycopg
import pytest
import pytest_asyncio
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from embedq.embedding import Spending
from embedq.model import Budget, NewRecord, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.catalogue import find
from embedq.testing.stores.stage import (
    DIMENSIONS,
    LATE,
    NOON,
    NOTES,
    declaration,
    done,
    embed_all,
    has_vector_of,
    read,
    space_of,
    take,
    write,
    write_many,
)

LEVELS = ["repeatable_read", "serializable"]
A, B, C = ([NewRecord(id=RecordId("a"), text=text)] for text in "ABC")


@asynccontextmanager
async def begun(url: str, level: str) -> AsyncIterator[asyncpg.Connection]:
    """Begin a transaction that has already looked at the database, so that it sees nothing newer."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation=level):
            await connection.fetchval("SELECT count(*) FROM embedq.record")
            yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("level", LEVELS)
async def test_a_put_that_sees_an_old_text_is_refused(store: PostgresStore, postgres_url: str, level: str) -> None:
    """It would find its text there already, and be acknowledged, while another text has been committed."""
    await write(store, "A")

    async def cross() -> None:
        async with begun(postgres_url, level) as connection:
            await write(store, "B")
            await store.put(NOTES, A, now=NOON, connection=connection)

    with pytest.raises(asyncpg.SerializationError, match="changed since this transaction began") as refused:
        await cross()

    assert "repeat it" in refused.value.__notes__[0]
    assert (await read(store)).text == "B"


@pytest.mark.parametrize("level", LEVELS)
async def test_a_put_into_a_dropped_collection_is_refused(store: PostgresStore, postgres_url: str, level: str) -> None:
    """Dropped, or made of other attributes, since the transaction began."""
    await write(store, "A")

    async def cross() -> None:
        async with begun(postgres_url, level) as connection:
            await store.drop(NOTES, now=NOON)
            store._database.catalogue.remember(await find(connection, NOTES))  # what a process remembers of before
            await store.put(NOTES, C, now=NOON, connection=connection)

    with pytest.raises(asyncpg.SerializationError, match="changed since this transaction began"):
        await cross()


@pytest.mark.parametrize("level", LEVELS)
async def test_a_new_record_that_another_has_put_is_refused(
    store: PostgresStore, postgres_url: str, level: str
) -> None:
    """The transaction cannot see it, but meets it."""

    async def cross() -> None:
        async with begun(postgres_url, level) as connection:
            await write(store, "B")
            await store.put(NOTES, A, now=NOON, connection=connection)

    with pytest.raises(asyncpg.SerializationError) as refused:
        await cross()

    assert "repeat it" in refused.value.__notes__[0]
    assert (await read(store)).text == "B"


@pytest.mark.parametrize("level", LEVELS)
async def test_a_put_and_a_delete_that_nobody_crosses_go_well(
    store: PostgresStore, postgres_url: str, level: str
) -> None:
    """New, edited, unchanged and deleted records, in one transaction; and again in the next."""
    await write_many(store, 4)
    await embed_all(store)
    for text in ("once", "twice"):
        async with begun(postgres_url, level) as connection:
            edit = [NewRecord(id=RecordId("r0"), text=text), NewRecord(id=RecordId("r1"), text="text r 1")]
            await store.put(NOTES, edit, now=NOON, connection=connection)
            await store.put(NOTES, [NewRecord(id=RecordId(text), text=text)], now=NOON, connection=connection)
            await store.delete(NOTES, [RecordId("r2")], now=NOON, connection=connection)
        assert await embed_all(store) == 2

    assert await has_vector_of(store, "twice", "r0")
    assert await store.misplaced() == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("then", ["lease", "settle", "rescue"])
async def test_a_delete_that_crosses_a_worker_leaves_each_job_in_one_place(
    store: PostgresStore, postgres_url: str, level: str, then: str
) -> None:
    """Whether it is refused or goes well, whatever the worker did since the transaction began."""
    await write(store, "A")
    leases = [] if then == "lease" else await take(store)
    with suppress(asyncpg.SerializationError):
        async with begun(postgres_url, level) as connection:
            if then == "lease":
                leases = await take(store)
            elif then == "settle":
                await store.settle([done(lease) for lease in leases], now=NOON)
            else:
                await store.rescue(now=LATE)
            await store.delete(NOTES, [RecordId("a")], now=NOON, connection=connection)
    assert await store.misplaced() == []

    await store.delete(NOTES, [RecordId("a")], now=NOON)
    await store.settle([done(lease) for lease in leases], now=LATE)
    assert await store.misplaced() == []
    assert (await store.counts())[NOTES].processing == 0


async def test_other_drivers_say_it_too(store: PostgresStore, postgres_url: str) -> None:
    """The error stays the driver's own, for whatever repeats transactions there, and is told in words."""
    await write(store, "A")

    async def cross_by_psycopg() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.execute("SELECT count(*) FROM embedq.record")
            await write(store, "B")
            await store.put(NOTES, A, now=NOON, connection=connection)

    async def cross_by_sqlalchemy() -> None:
        async with engine.begin() as connection:
            await connection.exec_driver_sql("SELECT count(*) FROM embedq.record")
            await write(store, "C")
            await store.put(NOTES, B, now=NOON, connection=connection)

    with pytest.raises(psycopg.errors.SerializationFailure) as refused:
        await cross_by_psycopg()
    assert "repeat it" in refused.value.__notes__[0]

    engine = create_async_engine(postgres_url.replace("postgresql:", "postgresql+asyncpg:"))
    engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with pytest.raises(sqlalchemy.exc.DBAPIError) as wrapped:
        await cross_by_sqlalchemy()
    await engine.dispose()
    assert "repeat it" in wrapped.value.__notes__[0]


@pytest_asyncio.fixture(params=LEVELS)
async def pooled(postgres_url: str, request: pytest.FixtureRequest) -> AsyncIterator[PostgresStore]:
    """Open a store as behind a pooler, whose sessions have another isolation than ours."""
    admin = await asyncpg.connect(postgres_url)
    level = request.param.replace("_", " ")
    await admin.execute(
        f"ALTER DATABASE {postgres_url.rpartition('/')[2]} SET default_transaction_isolation = '{level}'"
    )
    await admin.close()
    store = await PostgresStore.open(postgres_url, pooler=True)
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    yield store
    await store.close()


async def test_a_budget_holds_behind_a_pooler_with_another_isolation(pooled: PostgresStore) -> None:
    """Of twenty that ask at once, just those go that may."""
    space, budget = await space_of(pooled), Budget(requests=5, interval=timedelta(minutes=1))

    waits = await asyncio.gather(*(pooled.take(space, budget, now=NOON) for _ in range(20)))

    assert sum(wait == timedelta() for wait in waits) == 5


async def test_a_budget_of_tokens_holds_behind_a_pooler_with_another_isolation(pooled: PostgresStore) -> None:
    """Of twenty that ask for ten tokens at once, just as many go as there is room for."""
    space, budget = await space_of(pooled), Budget(requests=9, tokens=45, interval=timedelta(minutes=1))

    waits = await asyncio.gather(*(pooled.take(space, budget, Spending(tokens=10), now=NOON) for _ in range(20)))

    assert sum(wait == timedelta() for wait in waits) == 4


async def test_work_goes_on_behind_a_pooler_with_another_isolation(pooled: PostgresStore) -> None:
    """Put, edit, lease, settle and rescue by many at once: nothing is lost, and nothing is done twice."""
    leased: list[str] = []

    async def work(number: int) -> None:
        for _ in range(8):
            leases = await take(pooled, f"w{number}", limit=7)
            leased.extend(lease.record_id for lease in leases)
            await pooled.settle([done(lease) for lease in leases], now=NOON)

    async def edit(number: int) -> None:
        for step in range(8):
            await write(pooled, f"{number} {step}", f"e{number}")

    await write_many(pooled, 60)
    await asyncio.gather(*(work(n) for n in range(3)), *(edit(n) for n in range(3)))
    await pooled.rescue(now=LATE)
    await embed_all(pooled, at=LATE)

    plain = [name for name in leased if name.startswith("r")]
    assert len(plain) == len(set(plain))
    assert [await has_vector_of(pooled, f"{n} 7", f"e{n}") for n in range(3)] == [True] * 3
    assert (await pooled.counts())[NOTES].missing == 0
    assert await pooled.misplaced() == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", ["delete", "purge", "put"])
async def test_a_job_that_a_snapshot_does_not_see_is_met_all_the_same(
    store: PostgresStore, postgres_url: str, level: str, act: str
) -> None:
    """Retention removed the old job, and a new one was made and leased since the transaction began: it is refused."""
    await write(store, "A")
    await embed_all(store)
    assert await store.purge(older_than=timedelta(), now=LATE) == 1

    async def cross() -> None:
        async with begun(postgres_url, level) as connection:
            await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)
            assert len(await take(store)) == 1
            if act == "put":
                await store.put(NOTES, B, now=NOON, connection=connection)
            else:
                await store.delete(NOTES, [RecordId("a")], purge=act == "purge", now=NOON, connection=connection)

    with pytest.raises(asyncpg.SerializationError):
        await cross()

    assert await has_vector_of(store, "A")
