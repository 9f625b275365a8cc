"""Jobs that an application's open transaction holds: nobody waits for it, nobody is charged, and no job is lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest

from embedq.embedders.fake import FakeEmbedder
from embedq.model import Ask, EmbedderName, JobId, JobStatus, Lease, NewRecord, RecordId, WorkerId
from embedq.stores.postgres import PostgresStore, rescuing
from embedq.telemetry import Telemetry
from embedq.testing.stores.stage import (
    DIMENSIONS,
    LATE,
    LEASE,
    NOON,
    NOTES,
    done,
    embed_all,
    has_vector_of,
    job_of,
    read,
    read_job,
    take,
    take_one,
    write,
    write_many,
)
from embedq.upkeep import HostLiveness
from embedq.worker import Pool, WorkerOptions

SOON = 5  # seconds: far less than the application's transaction stays open
HOLD = "SELECT FROM embedq.job ORDER BY id FOR NO KEY UPDATE"
LEASE_UNDER_WAY = """
SELECT (embedq.lease('w2', ARRAY[$1::text], 10, '5 min', false, false, false,
  ARRAY[0, 1::bigint << 48, 2::bigint << 48, 3::bigint << 48], ARRAY[-1, -1, -1, -1]::bigint[], 42, NULL)).taken
"""
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"


@asynccontextmanager
async def application(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction elsewhere, and commit it in the end."""
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        yield connection
    await connection.close()


async def hold(url: str, records: Sequence[str]) -> tuple[asyncpg.Connection, asyncpg.transaction.Transaction]:
    """Hold the jobs of records in a transaction that the caller ends."""
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        "SELECT FROM embedq.job j JOIN embedq.record x ON x.rid = j.id >> 12 WHERE x.id = ANY ($1) FOR UPDATE OF j",
        list(records),
    )
    return connection, transaction


async def test_a_lease_whose_jobs_are_all_held_is_handed_back_later(store: PostgresStore, postgres_url: str) -> None:
    """Nothing can be handed back while they are held; no job is in no place, and none is charged."""
    receipts = await write_many(store, 3)
    [lease, *_] = await take(store)
    async with application(postgres_url) as held:
        await held.execute(HOLD)
        assert await rescuing.hand_back(store._database, lease.nonce) == (0, True)
    assert await store.misplaced() == []

    taken_back = await store.rescue(now=NOON)

    assert [(found.record_id, found.crashes) for found in taken_back] == [("r0", 0), ("r1", 0), ("r2", 0)]
    assert [(await job_of(store, receipt)).status for receipt in receipts] == [JobStatus.PENDING] * 3
    assert await store.misplaced() == []
    assert await embed_all(store) == 3


async def test_a_lease_of_which_one_job_is_held_is_handed_back_but_for_that(
    store: PostgresStore, postgres_url: str
) -> None:
    """The others are in the line at once."""
    await write_many(store, 3)
    [lease, *_] = await take(store)
    connection, transaction = await hold(postgres_url, ["r1"])
    assert await rescuing.hand_back(store._database, lease.nonce) == (2, True)
    assert {found.record_id for found in await take(store, "w2")} == {"r0", "r2"}
    await transaction.commit()
    await connection.close()

    assert await rescuing.hand_back(store._database, lease.nonce) == (1, False)
    assert await rescuing.hand_back(store._database, lease.nonce) == (0, False)
    assert [found.record_id for found in await take(store, "w2")] == ["r1"]


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("commits", [True, False])
async def test_an_open_delete_stops_neither_renewals_nor_settles(
    store: PostgresStore, postgres_url: str, *, purge: bool, commits: bool
) -> None:
    """The other jobs of its batch are renewed and settled at once, whether the delete is committed or not."""
    receipts = await write_many(store, 5)
    leases = await take(store)
    connection = await asyncpg.connect(postgres_url)
    transaction = connection.transaction()
    await transaction.start()
    await store.delete(NOTES, [RecordId("r2")], purge=purge, now=NOON, connection=connection)

    async with asyncio.timeout(SOON):
        assert len(await store.renew(leases, span=LEASE, now=NOON)) == 5
        settled = await store.settle([done(lease) for lease in leases], now=NOON)
    await (transaction.commit() if commits else transaction.rollback())
    await connection.close()

    assert settled.jobs == {receipt.job_id for receipt in receipts if receipt.id != "r2"}
    assert settled.busy == {receipts[2].job_id}
    again = await store.settle([done(lease) for lease in leases], now=NOON)
    assert again.jobs == (frozenset() if commits else {receipts[2].job_id})
    assert await store.misplaced() == []
    assert (await store.counts())[NOTES].processing == 0
    held = (await job_of(store, receipts[2])).status
    assert held is (JobStatus.CANCELLED if commits else JobStatus.COMPLETED)


async def test_an_open_purge_erases_what_is_settled_meanwhile(store: PostgresStore, postgres_url: str) -> None:
    """The vector that a worker brings while the purge is open is neither stored nor kept."""
    await write(store, "A")
    lease = await take_one(store)
    async with application(postgres_url) as connection:
        await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON, connection=connection)
        assert (await store.settle([done(lease)], now=NOON)).busy == {lease.job_id}
        assert (await store.settle([done(lease)], last=True, now=NOON)).busy == {lease.job_id}

    await store.settle([done(lease)], now=NOON)

    assert await store.known(lease.space, [lease.hash]) == {}


async def test_what_a_worker_gives_up_while_it_is_held_charges_nobody(store: PostgresStore, postgres_url: str) -> None:
    """It is taken back as soon as it is free, long before its lease would have run out."""
    receipt = await write(store, "A")
    lease = await take_one(store)
    async with application(postgres_url) as connection:
        await connection.execute(HOLD)
        await store.settle([done(lease)], last=True, now=NOON)
        assert await store.rescue(now=NOON) == []
    assert await store.renew([lease], span=LEASE, now=NOON) == set()

    [taken_back] = await store.rescue(now=NOON)

    assert (taken_back.crashes, taken_back.job_id) == (0, receipt.job_id)
    assert await embed_all(store) == 1


async def test_a_worker_keeps_what_an_application_holds(store: PostgresStore, postgres_url: str) -> None:
    """For many times its lease: it is renewed, nobody is charged, and in the end it is stored."""
    embedder = small_embedder()
    receipt = await write(store, "A", at=None)
    options = WorkerOptions(
        workers=1, lease=timedelta(seconds=1), heartbeat=timedelta(seconds=0.2), poll_interval=timedelta(seconds=0.1)
    )
    pool = Pool(store, lambda _: embedder, process=HostLiveness().me(), options=options, telemetry=Telemetry())
    connection, transaction = await hold(postgres_url, ["a"])
    await pool.start()
    rescued = 0
    for _ in range(30):
        await asyncio.sleep(0.1)  # the leases' own time has to pass: three times over
        rescued += len(await store.rescue())
    other = await write(store, "B", "b", at=None)
    await until_status(store, other.job_id, JobStatus.COMPLETED)
    assert (await job_of(store, receipt)).status is JobStatus.PROCESSING
    await transaction.commit()
    await connection.close()

    await until_status(store, receipt.job_id, JobStatus.COMPLETED)
    await pool.stop()

    job = await job_of(store, receipt)
    assert (rescued, job.crashes, job.attempts) == (0, 0, 0)
    assert embedder.texts_seen == 2
    assert await store.misplaced() == []


async def test_a_worker_that_leaves_gives_back_what_is_held(store: PostgresStore, postgres_url: str) -> None:
    """It does not stay for the application, and the job is charged with no crash."""
    receipt = await write(store, "A", at=None)
    options = WorkerOptions(workers=1, poll_interval=timedelta(seconds=0.1))
    pool = Pool(store, lambda _: small_embedder(), process=HostLiveness().me(), options=options, telemetry=Telemetry())
    connection, transaction = await hold(postgres_url, ["a"])
    await pool.start()
    await until_status(store, receipt.job_id, JobStatus.PROCESSING)

    async with asyncio.timeout(SOON):
        await pool.stop()
    await transaction.commit()
    await connection.close()

    assert [found.crashes for found in await store.rescue()] == [0]
    assert (await job_of(store, receipt)).status is JobStatus.PENDING


async def test_a_pause_waits_for_a_lease_under_way(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """When it returns, the lease is there to be seen, and nobody leases while it waits."""
    await write_many(store, 3)
    space = (await store.spaces())[0].id
    async with application(postgres_url) as worker:
        assert len(await worker.fetchval(LEASE_UNDER_WAY, space)) == 3
        pausing = asyncio.create_task(store.pause())
        async with asyncio.timeout(SOON):
            while not await db.fetchval(WAITING):  # noqa: ASYNC110 only the database knows
                await asyncio.sleep(0.01)
        await write(store, "one more", "r3")
        assert await take(store, at=None) == []
        assert not pausing.done()
    await pausing

    assert (await store.counts())[NOTES].processing == 3
    assert await take(store, at=None) == []


async def test_a_job_in_no_place_is_found_and_mended(store: PostgresStore, db: asyncpg.Connection) -> None:
    """And so is one in two places, one that stands where its row does not say, and a closed one in the line."""
    receipts = await write_many(store, 6)
    await embed_first(store)
    leases = await take(store, limit=2)
    keys = {receipt.id: int(str(receipt.job_id).partition(".")[0]) for receipt in receipts}
    line = "INSERT INTO embedq.ready SELECT id & 4095, collection, $2, id, arms, 0 FROM embedq.job WHERE id = $1"
    await db.execute(line, keys["r0"], 1)  # done already
    await db.execute(line, keys["r1"], 2)  # leased
    await db.execute("DELETE FROM embedq.ready WHERE job = $1", keys["r3"])
    await db.execute("UPDATE embedq.ready SET key = key + 7 WHERE job = $1", keys["r4"])
    expected = {receipt.job_id for receipt in receipts if receipt.id in {"r0", "r1", "r3", "r4"}}
    assert set(await store.misplaced()) == expected

    assert await store.put_in_place(await store.misplaced()) == 4

    assert await store.misplaced() == []
    assert (await store.settle([done(leases[0])], now=NOON)).jobs == frozenset()  # its lease holds it no longer
    assert await embed_all(store) == 4
    assert [await has_vector_of(store, f"text r {n}", f"r{n}") for n in (1, 3, 4, 5)] == [True] * 4
    await store.rescue(now=LATE)
    assert await store.misplaced() == []


def small_embedder() -> FakeEmbedder:
    """Make an embedder of the store's dimensions."""
    return FakeEmbedder(EmbedderName(provider="fake", model="fake", dimensions=DIMENSIONS))


async def embed_first(store: PostgresStore) -> None:
    """Embed one record."""
    [lease] = await take(store, limit=1)
    await store.settle([done(lease)], now=NOON)


async def until_status(store: PostgresStore, job: JobId | None, status: JobStatus) -> None:
    """Wait until a job is there."""
    assert job is not None
    async with asyncio.timeout(20):
        while (await read_job(store, job)).status is not status:
            await store.wait_for_work(timedelta(seconds=0.02))


async def test_a_batch_of_another_history_is_not_completed(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The sequence of tokens goes back, as after an asynchronous failover: each lease completes its own jobs."""
    await write_many(store, 2)
    before = await take(store, "w1", limit=1)
    token = before[0].token
    await forget_lease(db, token)
    after = await take(store, "w2", limit=1)
    assert (after[0].token, before[0].nonce == after[0].nonce) == (token, False)
    assert before[0].job_id != after[0].job_id

    following = [await settle_and_ask(store, leases) for leases in (before, after)]

    assert [len(jobs) for jobs in following] == [0, 1]
    assert (await read(store, before[0].record_id)).vector is None
    assert await has_vector_of(store, str(after[0].text), after[0].record_id)


async def forget_lease(db: asyncpg.Connection, token: int) -> None:
    """Lose a lease with its token, as a standby has that never heard of it; its job was queued behind the others."""
    await db.execute("DELETE FROM embedq.lease WHERE token = $1", token)
    await db.execute("SELECT setval('embedq.lease_token', $1, false)", token)


async def settle_and_ask(store: PostgresStore, leases: Sequence[Lease]) -> frozenset[object]:
    """Settle a whole batch as workers do, with the next one asked for."""
    ask = Ask(worker=WorkerId("w9"), spaces=[leases[0].space], limit=1, span=LEASE)
    settled = await store.settle([done(lease) for lease in leases], then=ask, now=NOON)
    await store.settle([], now=NOON)
    return frozenset(settled.jobs)


async def test_edits_are_put_while_a_job_is_held(store: PostgresStore, postgres_url: str) -> None:
    """Holding one record's job keeps nobody from writing another record."""
    await write_many(store, 2)
    connection, transaction = await hold(postgres_url, ["r0"])
    async with asyncio.timeout(SOON):
        await store.put(NOTES, [NewRecord(id=RecordId("r1"), text="edited")], now=NOON)
    await transaction.rollback()
    await connection.close()

    assert await embed_all(store) == 2


async def test_a_lease_of_a_lost_history_leaves_nothing_of_an_erased_text(
    store: PostgresStore, db: asyncpg.Connection
) -> None:
    """A purge on the new primary knows fewer tokens than the old one gave: what they bring is not kept all the same."""
    await write(store, "A")
    lease = await take_one(store)
    await db.execute("SELECT setval('embedq.lease_token', $1, true)", lease.token - 1)
    await db.execute("DELETE FROM embedq.lease")
    await store.put_in_place(await store.misplaced())
    await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON)
    await write(store, "other", "b")
    await take_one(store)  # the token is given again

    await store.settle([done(lease)], now=NOON)

    assert await store.known(lease.space, [lease.hash]) == {}


async def test_a_lease_of_another_installation_leaves_nothing(store: PostgresStore) -> None:
    """Its space may be another model's here: not even a text that is the same gets its vector."""
    await write(store, "A")
    lease = await take_one(store)
    stranger = lease._replace(token=lease.token + (1 << 32), nonce=lease.nonce ^ 1)

    await store.settle([done(stranger)], now=NOON)

    assert await store.known(lease.space, [lease.hash]) == {}


async def test_a_late_answer_beside_an_open_purge_is_not_kept(store: PostgresStore, postgres_url: str) -> None:
    """Neither where retention has removed the job, so that nothing of it can be locked."""
    await write(store, "A")
    late = await take_one(store, "w1")
    await store.rescue(now=LATE)
    await embed_all(store, at=LATE)
    assert await store.purge(older_than=timedelta(), now=LATE + LEASE) == 1
    async with application(postgres_url) as connection:
        await store.delete(NOTES, [RecordId("a")], purge=True, now=LATE, connection=connection)
        await store.settle([done(late)], now=LATE)

    assert await store.known(late.space, [late.hash]) == {}


async def test_handing_back_waits_for_the_lease_it_is_about(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Its answer may be lost before it is committed: the jobs go back once it is, and nobody is charged."""
    await write_many(store, 3)
    space = (await store.spaces())[0].id
    async with application(postgres_url) as worker:
        assert len(await worker.fetchval(LEASE_UNDER_WAY, space)) == 3
        handing_back = asyncio.create_task(rescuing.hand_back(store._database, 42))
        async with asyncio.timeout(SOON):
            while not await db.fetchval(WAITING):  # noqa: ASYNC110 only the database knows
                await asyncio.sleep(0.01)

    assert await handing_back == (3, False)
    assert await store.misplaced() == []
    assert await embed_all(store) == 3
