"""An application's open transaction keeps nobody from working."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from embedq.model import Ask, JobStatus, NewRecord, RecordId, WorkerId
from embedq.stores.postgres import PostgresStore, transitions
from embedq.testing.stores.stage import (
    LATE,
    LEASE,
    NOON,
    NOTES,
    done,
    embed_all,
    has_vector_of,
    job_of,
    take,
    take_one,
    write,
    write_many,
)

SOON = 5  # seconds: far less than the application's transaction stays open
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND clock_timestamp() > waitstart + interval '20 ms'"


async def test_a_settle_does_not_wait_for_an_open_edit(store: PostgresStore, postgres_url: str) -> None:
    """The other jobs of its batch are settled at once, and the edited one runs again when the edit is committed."""
    receipts = await write_many(store, 5)
    leases = await take(store)
    application = await asyncpg.connect(postgres_url)
    transaction = application.transaction()
    await transaction.start()
    edit = [NewRecord(id=RecordId("r2"), text="edited")]
    await store.put(NOTES, edit, now=NOON, connection=application)

    async with asyncio.timeout(SOON):
        settled = await store.settle([done(lease) for lease in leases], now=NOON)

    assert settled.jobs == {receipt.job_id for receipt in receipts if receipt.id != "r2"}
    await transaction.commit()
    await application.close()
    assert (await store.settle([done(lease) for lease in leases], now=NOON)).jobs == {receipts[2].job_id}
    assert await embed_all(store) == 1
    assert await has_vector_of(store, "edited", "r2")


async def test_a_whole_batch_waits_for_room_in_the_table_of_vectors(
    store: PostgresStore, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever extends the table holds it longer than a job may be waited for; nothing is judged job by job."""
    monkeypatch.setattr(transitions, "FACTS", "SELECT 'no batch comes here'::int")
    receipts = await write_many(store, 5)
    leases = await take(store)
    following = Ask(worker=WorkerId("w1"), spaces=[leases[0].space], limit=5, span=LEASE)
    async with db.transaction():
        await db.execute("LOCK TABLE embedq.vector_1 IN SHARE MODE")
        settling = asyncio.create_task(store.settle([done(lease) for lease in leases], then=following, now=NOON))
        async with asyncio.timeout(SOON):
            while not await db.fetchval(WAITS):  # noqa: ASYNC110 only the database knows
                await asyncio.sleep(0.01)

    assert (await settling).jobs == {receipt.job_id for receipt in receipts}


async def test_what_was_paid_for_is_kept_while_its_job_is_held(store: PostgresStore, postgres_url: str) -> None:
    """A vector whose job could not be settled is known when its text comes again, and its worker may come back."""
    await write(store, "A")
    lease = await take_one(store)
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await store.put(NOTES, [NewRecord(id=RecordId("a"), text="B")], now=NOON, connection=application)
        held = await store.settle([done(lease)], now=NOON)
    await application.close()

    assert (held.jobs, held.busy) == (frozenset(), {lease.job_id})
    assert list(await store.known(lease.space, [lease.hash])) == [lease.hash]
    assert (await store.settle([done(lease)], now=NOON)).jobs == {lease.job_id}


async def test_a_renewal_does_not_wait_for_an_open_edit(store: PostgresStore, postgres_url: str) -> None:
    """A hundred leases do not expire because one record is being edited."""
    await write_many(store, 5)
    leases = await take(store)
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await store.put(NOTES, [NewRecord(id=RecordId("r2"), text="edited")], now=NOON, connection=application)

        async with asyncio.timeout(SOON):
            renewed = await store.renew(leases, span=LEASE, now=NOON)

        assert len(renewed) == 5
    await application.close()


async def test_a_rescue_comes_back_for_what_is_held(store: PostgresStore, postgres_url: str) -> None:
    """The others are taken back at once; the held one next time, uncharged, since its text is new."""
    receipts = await write_many(store, 3)
    await take(store)
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await store.put(NOTES, [NewRecord(id=RecordId("r1"), text="edited")], now=NOON, connection=application)
        async with asyncio.timeout(SOON):
            first = await store.rescue(now=LATE)
    await application.close()

    second = await store.rescue(now=LATE)

    assert {found.record_id for found in first} == {"r0", "r2"}
    assert [(found.record_id, found.crashes) for found in second] == [("r1", 0)]
    assert (await job_of(store, receipts[1])).status is JobStatus.PENDING


async def test_a_lease_does_not_wait_for_an_open_edit(store: PostgresStore, postgres_url: str) -> None:
    """A job that is being edited is passed over, and found once the edit is committed."""
    await write_many(store, 3)
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await store.put(NOTES, [NewRecord(id=RecordId("r1"), text="edited")], now=NOON, connection=application)
        async with asyncio.timeout(SOON):
            leased = {lease.record_id for lease in await take(store)}
    await application.close()

    assert leased == {"r0", "r2"}
    assert [(lease.record_id, lease.text) for lease in await take(store)] == [("r1", "edited")]


async def test_a_lease_reads_what_was_committed_after_its_choice(store: PostgresStore, postgres_url: str) -> None:
    """Text and hash are of one moment, however edits fall between."""
    await write_many(store, 50)
    stop = asyncio.Event()

    async def edit() -> None:
        step = 0
        while not stop.is_set():
            step += 1
            await write(store, f"edit {step}", f"r{step % 50}")

    editors = [asyncio.create_task(edit()) for _ in range(2)]
    other = await PostgresStore.open(postgres_url)
    for _ in range(40):
        leases = await take(other, limit=10)
        await other.settle([done(lease) for lease in leases], now=NOON)
    stop.set()
    await asyncio.gather(*editors)
    await embed_all(store)

    records = (await store.records(NOTES, limit=100)).items
    assert all([await has_vector_of(store, record.text, record.id) for record in records])
    await other.close()


async def test_many_writers_and_workers_never_wait_in_a_circle(store: PostgresStore, postgres_url: str) -> None:
    """Overlapping batches in opposite orders, with deletes and rescues between: no deadlock, and nothing is lost."""
    other = await PostgresStore.open(postgres_url)
    names = [f"n{number}" for number in range(30)]
    texts: dict[str, str] = {}

    async def edit(editor: int) -> None:
        for step in range(25):
            chosen = [names[(editor * 7 + step * 3 + place) % 30] for place in range(12)]
            ordered = chosen if editor % 2 else chosen[::-1]
            records = [NewRecord(id=RecordId(name), text=f"{name} {editor} {step}") for name in dict.fromkeys(ordered)]
            await (store if step % 2 else other).put(NOTES, records, now=NOON)

    async def work(number: int) -> None:
        mine = other if number % 2 else store
        for _ in range(25):
            leases = await take(mine, f"w{number}", limit=9)
            await mine.settle([done(lease) for lease in leases], now=NOON)
            await mine.delete(NOTES, [RecordId(names[number])], now=NOON)

    async with asyncio.timeout(60):
        await asyncio.gather(*(edit(n) for n in range(3)), *(work(n) for n in range(3)))
    await store.rescue(now=LATE)
    await embed_all(store, at=LATE)

    deadlocks = await store._database.fetchrow(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    for record in (await store.records(NOTES, limit=100)).items:
        texts[record.id] = record.text
    assert deadlocks[0] == 0
    assert all([await has_vector_of(store, text, name) for name, text in texts.items()])
    assert (await store.counts())[NOTES].missing == 0
    await other.close()


async def test_a_worker_hears_of_a_commit_at_its_end(store: PostgresStore, postgres_url: str) -> None:
    """A put in an open transaction wakes nobody before it is committed, and everybody then."""
    await store.wait_for_work(timedelta(seconds=0.1))
    await take(store)
    application = await asyncpg.connect(postgres_url)
    transaction = application.transaction()
    await transaction.start()
    await store.put(NOTES, [NewRecord(id=RecordId("a"), text="A")], now=NOON, connection=application)
    assert await take(store) == []
    waiting = asyncio.create_task(store.wait_for_work(timedelta(seconds=4)))

    await transaction.commit()

    async with asyncio.timeout(2):
        await waiting
    assert len(await take(store)) == 1
    await application.close()
