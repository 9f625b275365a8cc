"""A lease is identified by a token and a nonce, holds only its own jobs, and every open job is in one place."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from embedq.model import (
    Ask,
    Done,
    EmbedderName,
    JobStatus,
    Lease,
    NewRecord,
    Outcome,
    RecordId,
    Released,
    Skipped,
    SpaceId,
    WorkerId,
)
from embedq.ports import Store
from embedq.testing.stores.stage import (
    DIMENSIONS,
    LATE,
    LEASE,
    NOON,
    NOTES,
    Stage,
    declaration,
    done,
    embed_all,
    failed,
    has_vector_of,
    job_of,
    read,
    retry,
    space_of,
    take,
    take_one,
    vector_of,
    write,
    write_many,
)

OUTCOMES = [done, retry, failed, Released, Skipped]
NAMES = ["done", "retry", "failed", "released", "skipped"]


def of_another_history(lease: Lease) -> Lease:
    """Make the lease that had the same token before a failover or a restore."""
    return lease._replace(nonce=lease.nonce ^ 1)


def following(leases: Sequence[Lease]) -> Ask:
    """Request the next batch with a settle, as workers do."""
    return Ask(worker=WorkerId("w1"), spaces=[leases[0].space], limit=10, span=LEASE)


class FenceFacts(Stage):
    """Token and nonce, and the one place of a job."""

    @pytest.mark.parametrize("end", OUTCOMES, ids=NAMES)
    async def test_a_token_that_came_again_settles_nothing(self, store: Store, end: Callable[[Lease], Outcome]) -> None:
        """After a failover a token may be another lease's: without its nonce nothing changes, of one job or a batch."""
        receipts = await write_many(store, 3)
        leases = await take(store)
        stale = [end(of_another_history(lease)) for lease in leases]

        alone = await store.settle(stale[:1], now=NOON)
        whole = await store.settle(stale, then=following(leases), now=NOON)

        assert (alone.jobs, whole.jobs, whole.next.leases) == (frozenset(), frozenset(), ())
        assert [(await job_of(store, receipt)).status for receipt in receipts] == [JobStatus.PROCESSING] * 3
        assert len((await store.settle([done(lease) for lease in leases], now=NOON)).jobs) == 3

    async def test_a_token_that_came_again_renews_nothing(self, store: Store) -> None:
        """Nor does it keep the other lease alive."""
        await write(store, "A")
        lease = await take_one(store)

        assert await store.renew([of_another_history(lease)], span=10 * LEASE, now=NOON) == set()

        assert len(await store.rescue(now=LATE)) == 1

    async def test_a_token_that_came_again_brings_no_late_result(self, store: Store) -> None:
        """A rescued job accepts the vector of the lease that it had, and of no other with that number."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.rescue(now=LATE)

        assert (await store.settle([done(of_another_history(lease))], now=LATE)).jobs == frozenset()
        assert (await job_of(store, receipt)).status is JobStatus.PENDING
        assert (await store.settle([done(lease)], now=LATE)).jobs == {receipt.job_id}

    async def test_nonces_differ(self, store: Store, other: Store) -> None:
        """Two leases never have the same, and all jobs of one share theirs."""
        await write_many(store, 40)
        batches = [await take(store if number % 2 else other, f"w{number}", limit=4) for number in range(10)]

        assert all(len({lease.nonce for lease in batch}) == 1 for batch in batches)
        assert len({batch[0].nonce for batch in batches}) == 10

    async def test_a_lease_settles_its_own_jobs_only(self, store: Store) -> None:
        """A vector never goes to a job of another lease, even if a worker shows a valid token for it."""
        receipts = await write_many(store, 4)
        mine, theirs = await take(store, "w1", limit=2), await take(store, "w2", limit=2)
        token, nonce = mine[0].token, mine[0].nonce
        crossed = [Done(lease._replace(token=token, nonce=nonce), vector_of("of mine")) for lease in theirs]

        assert (await store.settle(crossed, then=following(mine), now=NOON)).jobs == frozenset()
        assert (await store.settle([*map(done, mine), *crossed], now=NOON)).jobs == {lease.job_id for lease in mine}

        if self.one_database:  # a pair's corpus does not know leases [11]
            assert [(await read(store, lease.record_id)).vector for lease in theirs] == [None, None]
        assert [(await job_of(store, receipt)).status for receipt in receipts[2:]] == [JobStatus.PROCESSING] * 2

    async def test_a_vector_of_another_text_is_not_stored(self, store: Store) -> None:
        """A whole batch carries the hashes of what it embedded."""
        receipts = await write_many(store, 2)
        leases = await take(store)
        [one, two] = leases
        crossed = [Done(one._replace(hash=two.hash), vector_of("x")), Done(two._replace(hash=one.hash), vector_of("y"))]

        settled = await store.settle(crossed, then=following(leases), now=NOON)

        assert [(await read(store, receipt.id)).vector for receipt in receipts] == [None, None]
        assert {lease.job_id for lease in settled.next.leases} == {receipt.job_id for receipt in receipts}

    async def test_what_is_erased_stays_so_when_its_answer_is_late(self, store: Store) -> None:
        """Purged and put again with another text: the vector of the first is neither stored nor kept for reuse."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON)
        await write(store, "B")

        await store.settle([done(lease)], now=NOON)

        assert await store.known(lease.space, [lease.hash]) == {}
        assert await embed_all(store) == 1
        assert await has_vector_of(store, "B")

    async def test_what_is_leased_after_an_erasure_is_kept(self, store: Store) -> None:
        """Only answers that were requested before the purge are discarded."""
        await write(store, "A")
        await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON)
        await write(store, "A")
        lease = await take_one(store)
        await write(store, "B")

        await store.settle([done(lease)], now=NOON)

        assert list(await store.known(lease.space, [lease.hash])) == [lease.hash]

    async def test_an_open_job_is_in_one_place(self, store: Store) -> None:
        """Whatever was done to it while it was leased."""
        receipts = await write_many(store, 6)
        leases = await take(store)
        await store.delete(NOTES, [RecordId("r0")], now=NOON)
        await store.delete(NOTES, [RecordId("r1")], now=NOON)
        await write(store, "again", "r1")
        assert receipts[2].job_id is not None
        await store.cancel(receipts[2].job_id, now=NOON)
        await store.enqueue(NOTES, [RecordId("r2"), RecordId("r3")], force=True, now=NOON)
        assert await store.misplaced() == []

        await store.settle([retry(leases[4])], now=NOON)
        await store.rescue(now=LATE)
        assert await store.misplaced() == []

        assert await embed_all(store, at=LATE) == 5
        assert await store.misplaced() == []

    async def test_a_job_that_was_taken_from_a_lease_is_no_longer_under_it(self, store: Store) -> None:
        """Cancelled and enqueued again, it is leased again at once; the first lease neither renews nor charges it."""
        receipt = await write(store, "A")
        stale = await take_one(store, "w1")
        assert receipt.job_id is not None
        await store.cancel(receipt.job_id, now=NOON)
        await store.enqueue(NOTES, [RecordId("a")], now=NOON)
        fresh = await take_one(store, "w2")

        assert await store.renew([stale], span=LEASE, now=NOON) == set()
        assert (await store.settle([retry(stale)], now=NOON)).jobs == frozenset()
        assert len(await store.rescue(dead=[WorkerId("w1")], now=NOON)) == 0
        assert (await store.settle([done(fresh)], now=NOON)).jobs == {receipt.job_id}

    async def test_nothing_is_mended_that_is_in_place(self, store: Store) -> None:
        """Naming a job that is in its place changes nothing: not its lease, and not its turn."""
        receipts = await write_many(store, 2)
        [lease] = await take(store, limit=1)
        jobs = [receipt.job_id for receipt in receipts if receipt.job_id is not None]

        assert await store.put_in_place(jobs) == 0

        assert await store.renew([lease], span=LEASE, now=NOON) == {lease.job_id}
        assert len(await take(store)) == 1

    async def test_a_space_is_known_by_what_was_asked_for(self, store: Store) -> None:
        """A worker requests by name: a space of the same model with other dimensions, or with none, is another one."""
        name = EmbedderName(provider="fake", model="fake", dimensions=DIMENSIONS * 2)
        wide = await store.declare(declaration("wide", embedder=name), now=NOON)
        await store.put("wide", [NewRecord(id=RecordId("b"), text="B")], now=NOON)
        await write(store, "A")
        ask = Ask(worker=WorkerId("w1"), spaces=[await space_of(store)], limit=5, span=LEASE)

        nobody = await store.lease(replace(ask, spaces=[SpaceId("fake:another@0/1")]), now=NOON)
        mine = await store.lease(ask, now=NOON)
        theirs = await store.lease(replace(ask, spaces=[SpaceId("fake:another@0/1"), wide.space.id]), now=NOON)

        assert nobody.leases == ()
        assert [(lease.record_id, lease.space) for lease in mine.leases] == [("a", await space_of(store))]
        assert [(lease.record_id, lease.space) for lease in theirs.leases] == [("b", wide.space.id)]

    async def test_nothing_is_leased_once_a_pause_has_answered(self, store: Store, other: Store) -> None:
        """Leases in progress are visible when pause returns, and no other comes after."""
        await write_many(store, 900)
        taken: list[Lease] = []
        is_over = asyncio.Event()

        async def work(number: int) -> None:
            while not is_over.is_set():
                taken.extend(await take(other if number % 2 else store, f"w{number}", limit=3))

        workers = [asyncio.create_task(work(number)) for number in range(4)]
        while len(taken) < 10:  # noqa: ASYNC110 the workers signal nothing
            await asyncio.sleep(0.001)
        await store.pause()
        held = (await other.counts())[NOTES].processing
        is_over.set()
        await asyncio.gather(*workers)

        assert held == len(taken) == (await store.counts())[NOTES].processing < 900
