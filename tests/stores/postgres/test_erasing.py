"""What was removed for good stays so, and nothing else is lost: beside open transactions and after a failover."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import asyncpg
import pytest

from embedq.model import Lease, NewRecord, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import LATE, LEASE, NOON, NOTES, done, embed_all, take, take_one, write

SOON = 5  # seconds: far less than the application's transaction stays open
A, B = RecordId("a"), RecordId("b")
LEVELS = ["repeatable_read", "serializable"]

Act = Callable[[PostgresStore, asyncpg.Connection], Awaitable[object]]
HOLDERS: dict[str, Act] = {
    "put": lambda store, db: store.put(NOTES, [NewRecord(id=A, text="B")], now=NOON, connection=db),
    "delete": lambda store, db: store.delete(NOTES, [A], now=NOON, connection=db),
    "lock": lambda _, db: db.execute("SELECT FROM embedq.job FOR UPDATE"),
}


@asynccontextmanager
async def application(url: str, level: str = "read_committed") -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction elsewhere that has looked at the database already, and commit it in the end."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation=level):
            await connection.fetchval("SELECT count(*) FROM embedq.spare")
            yield connection
    finally:
        await connection.close()


async def purge(store: PostgresStore, record: RecordId = A, connection: asyncpg.Connection | None = None) -> None:
    """Remove a record for good."""
    await store.delete(NOTES, [record], purge=True, now=NOON, connection=connection)


async def is_known(store: PostgresStore, lease: Lease) -> bool:
    """Say whether the vector of a lease's text is stored or kept for reuse."""
    return lease.hash in await store.known(lease.space, [lease.hash])


async def late_lease(store: PostgresStore) -> Lease:
    """Lease a record's job that is another's since: whatever it brings can only be kept for reuse."""
    await write(store, "A")
    late = await take_one(store, "w1")
    await store.rescue(now=LATE)
    await take_one(store, "w2", at=LATE)
    return late


async def late_lease_of_a_removed_job(store: PostgresStore) -> Lease:
    """Lease a record's job that another has done since, and retention has removed."""
    await write(store, "A")
    late = await take_one(store, "w1")
    await store.rescue(now=LATE)
    await embed_all(store, at=LATE)
    assert await store.purge(older_than=timedelta(), now=LATE + LEASE) == 1
    return late


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("holder", HOLDERS)
async def test_what_was_paid_for_is_kept_at_once_though_its_job_is_held(
    store: PostgresStore, postgres_url: str, holder: str, *, last: bool
) -> None:
    """A worker that is killed while it waits for the application has thrown nothing away."""
    await write(store, "A")
    lease = await take_one(store)
    async with application(postgres_url) as connection:
        await HOLDERS[holder](store, connection)
        assert (await store.settle([done(lease)], last=last, now=NOON)).busy == {lease.job_id}

        assert await is_known(store, lease)


async def test_a_purge_takes_what_was_kept_while_its_transaction_was_open(
    store: PostgresStore, postgres_url: str
) -> None:
    """The application edits the record, a worker's vector of the text before is kept, then the application purges."""
    await write(store, "A")
    lease = await take_one(store)
    async with application(postgres_url) as connection:
        await store.put(NOTES, [NewRecord(id=A, text="A")], now=NOON, connection=connection)
        await connection.execute("SELECT FROM embedq.job FOR UPDATE")
        await store.settle([done(lease)], now=NOON)
        assert await is_known(store, lease)
        await purge(store, connection=connection)

    assert not await is_known(store, lease)


async def test_a_settle_does_not_wait_for_an_open_purge_of_the_same_text(
    store: PostgresStore, postgres_url: str
) -> None:
    """The purge is just removing the vector that was kept of this text; the other record is none of its business."""
    await store.settle([done(await late_lease(store))], now=LATE)
    await write(store, "A", "b", at=LATE)
    other = await take_one(store, "w3", at=LATE)
    await write(store, "C", "b", at=LATE)
    async with application(postgres_url) as connection:
        await purge(store, connection=connection)

        async with asyncio.timeout(SOON):
            settled = await store.settle([done(other)], now=LATE)

    assert settled.jobs == {other.job_id}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("begin", [late_lease, late_lease_of_a_removed_job])
async def test_a_purge_meets_what_its_snapshot_does_not_see(
    store: PostgresStore, postgres_url: str, level: str, begin: Callable[[PostgresStore], Awaitable[Lease]]
) -> None:
    """A vector was kept since the transaction began: the purge is refused, or takes it away."""
    late = await begin(store)

    with suppress(asyncpg.SerializationError):
        async with application(postgres_url, level) as connection:
            await store.settle([done(late)], now=LATE)
            assert await is_known(store, late)
            await purge(store, connection=connection)
        assert not await is_known(store, late)
        return

    await purge(store)
    assert not await is_known(store, late)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_purge_that_nobody_crosses_goes_well(store: PostgresStore, postgres_url: str, level: str) -> None:
    """What its snapshot sees is taken away, and others keep vectors meanwhile."""
    late = await late_lease(store)
    await store.settle([done(late)], now=LATE)
    await write(store, "other", "b")
    other = await take(store, "w3", at=LATE)
    await write(store, "edited", "b")
    async with application(postgres_url, level) as connection:
        await purge(store, connection=connection)
        async with asyncio.timeout(SOON):
            await store.settle([done(lease) for lease in other], now=LATE)

    assert not await is_known(store, late)
    assert [await is_known(store, lease) for lease in other] == [True]


async def lose_history(store: PostgresStore, db: asyncpg.Connection, lease: Lease) -> None:
    """Lose a lease with its token, as a standby has that never heard of it."""
    await db.execute("DELETE FROM embedq.lease")
    await db.execute("SELECT setval('embedq.lease_token', $1, true)", lease.token - 1)
    await store.put_in_place(await store.misplaced())


async def test_a_lease_of_a_lost_history_brings_what_was_paid_for(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Its token is newer than any that was given here: nothing was removed, so the vector is kept."""
    await write(store, "A")
    lease = await take_one(store)
    await lose_history(store, db, lease)

    settled = await store.settle([done(lease)], now=NOON)

    assert settled.jobs == frozenset()
    assert await is_known(store, lease)


async def test_a_lease_of_a_lost_record_brings_nothing_of_what_was_erased(
    store: PostgresStore, db: asyncpg.Connection
) -> None:
    """Its record's number is another's here, and was given to it anew before it was removed for good."""
    await write(store, "A")
    lease = await take_one(store)
    for table in ("lease", "record", "job", "missing"):
        await db.execute(f"DELETE FROM embedq.{table}")  # noqa: S608 our own names
    await db.execute("SELECT setval('embedq.record_rid', $1, false)", int(lease.job_id.partition(".")[2]))
    other = await write(store, "other", "b")
    await write(store, "A", "a")
    await purge(store)
    assert other.job_id == lease.job_id

    await store.settle([done(lease)], now=NOON)

    assert not await is_known(store, lease)
