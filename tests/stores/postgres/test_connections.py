"""Connections come and go; work goes on."""

import asyncio
import threading
from datetime import timedelta

import asyncpg
import pytest

from embedq.errors import StoreError
from embedq.model import Counts, JobFilter, JobStatus, Outcome, Query, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import LEASE, NOON, NOTES, done, embed_all, take, vector_of, write, write_many

END_ALL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

# Sessions of this database that listen: other tests use the same server.
LISTENING = """
SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()
"""


async def end_all(url: str) -> int:
    """End every session of this database, as an administrator would."""
    db = await asyncpg.connect(url)
    ended = await db.fetchval(END_ALL)
    await db.close()
    return int(ended)


async def test_reads_and_puts_survive_lost_connections(store: PostgresStore, postgres_url: str) -> None:
    """Whoever reads or puts does not notice that all sessions were ended."""
    await write(store, "A")
    assert await end_all(postgres_url) > 0

    assert len(await store.get(NOTES, [RecordId("a")])) == 1
    await end_all(postgres_url)
    await write(store, "B", "b")
    await end_all(postgres_url)
    assert (await store.counts())[NOTES].records == 2


async def test_sessions_ended_in_a_loop_lose_nothing(store: PostgresStore, postgres_url: str) -> None:
    """Workers go on, no job is lost or left behind under a lease whose answer never came."""
    await write_many(store, 200)
    moved, over = asyncio.Event(), asyncio.Event()

    async def end() -> None:
        while not over.is_set():
            await (
                moved.wait()
            )  # sessions may end at any moment, but work goes on in between however slow the machine is
            moved.clear()
            await end_all(postgres_url)

    async def work(worker: str) -> None:
        outcomes: list[Outcome] = []
        for _ in range(400):
            try:
                if outcomes:
                    await store.settle(outcomes)
                outcomes = [done(lease) for lease in await take(store, worker, at=None, limit=5)]
            except StoreError:
                continue
            moved.set()
            if not outcomes and (await _counts(store)).pending == 0:
                return

    ending = asyncio.create_task(end())
    await asyncio.gather(work("w1"), work("w2"))
    over.set()
    moved.set()
    await ending
    counts = (await store.counts())[NOTES]
    assert counts.completed + counts.pending + counts.processing == 200
    await embed_all(store)
    held = (await store.jobs(JobFilter(status=JobStatus.PROCESSING))).items
    assert all(job.crashes == 0 for job in held)
    assert (await store.counts())[NOTES].completed + len(held) == 200


async def _counts(store: PostgresStore) -> Counts:
    while True:
        try:
            return (await store.counts())[NOTES]
        except StoreError:
            continue


async def test_a_lease_whose_answer_was_lost_is_handed_back(store: PostgresStore) -> None:
    """Nobody worked on it: it is leased again at once, and no crash is counted."""
    receipt = await write(store, "A")
    await take(store)
    row = await store._database.fetchrow("SELECT nonce FROM embedq.lease")

    store._unanswered.add(row["nonce"])
    await store._hand_back()

    [lease] = await take(store)
    assert (lease.job_id, lease.crashes) == (receipt.job_id, 0)


async def test_a_lease_that_could_not_be_made_out_is_handed_back(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is lost between the lease and the look at its collection: the job is free again, uncharged."""
    receipt = await write(store, "A")
    other = await PostgresStore.open(postgres_url)

    async def read(_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(other._database.catalogue, "read", read)
    with pytest.raises(StoreError, match="cannot be reached"):
        await take(other)
    await other.close()

    [lease] = await take(store)
    assert (lease.job_id, lease.crashes) == (receipt.job_id, 0)


async def test_a_worker_that_waits_hears_again_after_a_loss(store: PostgresStore, postgres_url: str) -> None:
    """The connection that listens comes back by itself, and wakes everybody when it does."""
    await store.wait_for_work(timedelta(seconds=0.2))
    await take(store)
    waiting = asyncio.create_task(store.wait_for_work(timedelta(seconds=4)))
    await asyncio.sleep(0)
    await end_all(postgres_url)

    async with asyncio.timeout(3):
        await waiting


async def test_every_event_loop_has_its_own_connections(store: PostgresStore) -> None:
    """A heartbeat on another thread renews what this one has leased."""
    await write_many(store, 3)
    leases = await take(store)
    renewed: set[str] = set()

    def beat() -> None:
        renewed.update(asyncio.run(store.renew(leases, span=LEASE, now=NOON)))

    for _ in range(2):
        thread = threading.Thread(target=beat)
        thread.start()
        await asyncio.to_thread(thread.join)

    assert renewed == {lease.job_id for lease in leases}
    assert len(await store.renew(leases, span=LEASE, now=NOON)) == 3


async def test_behind_a_pooler_nothing_of_a_session_is_used(postgres_url: str, store: PostgresStore) -> None:
    """No statement is prepared by name, nobody listens, and everything still works."""
    behind = await PostgresStore.open(f"{postgres_url}?pooler=transaction")
    await write_many(behind, 3)
    await behind.wait_for_work(timedelta(seconds=0.1))
    assert await embed_all(behind) == 3
    [hit] = await behind.search_vector(NOTES, vector_of("text r 1"), Query(k=1))
    async with behind._database._pool.here().connection() as connection:
        prepared = await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
    listening = await store._database.fetchrow(LISTENING)
    await behind.close()

    assert (hit.id, prepared, listening[0]) == ("r1", 0, 0)


async def test_a_closed_store_says_so(postgres_url: str) -> None:
    """It does not open connections again."""
    store = await PostgresStore.open(postgres_url)
    await store.close()

    with pytest.raises(StoreError, match="closed"):
        await store.counts()
