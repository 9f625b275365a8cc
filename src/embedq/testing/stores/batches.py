"""What is settled together, and what is never leased together."""

from collections.abc import Callable
from datetime import datetime

import pytest

from embedq.model import Ask, JobFilter, JobId, JobStatus, Lease, Outcome, RecordId, Released, WorkerId
from embedq.ports import Store
from embedq.testing.stores.stage import (
    FAULT,
    HOUR,
    LEASE,
    MINUTE,
    NOON,
    NOTES,
    Stage,
    done,
    failed,
    job_of,
    retry,
    space_of,
    take,
    take_one,
    write,
    write_many,
)


class BatchFacts(Stage):
    """Facts about jobs that share a lease, and about those that must not."""

    async def test_a_batch_that_was_armed_since_is_not_completed_as_a_whole(self, store: Store) -> None:
        """Settled with the next lease in one call: its forced job runs again, and its neighbour is done."""
        receipts = await write_many(store, 2)
        leases = await take(store)
        await store.enqueue(NOTES, [RecordId("r1")], force=True, now=NOON)
        ask = Ask(worker=WorkerId("w1"), spaces=[await space_of(store)], limit=10, span=LEASE)

        settled = await store.settle([done(lease) for lease in leases], then=ask, now=NOON)

        assert settled.jobs == {receipt.job_id for receipt in receipts}
        assert [(lease.record_id, lease.forced) for lease in settled.next.leases] == [("r1", True)]
        assert (await job_of(store, receipts[0])).status is JobStatus.COMPLETED

    async def test_a_force_of_one_in_a_batch_is_not_lost(self, store: Store) -> None:
        """Of three that are settled together, the one that was forced meanwhile runs again."""
        receipts = await write_many(store, 3)
        leases = await take(store)
        await store.enqueue(NOTES, [RecordId("r1")], force=True, now=NOON)

        await store.settle([done(lease) for lease in leases], now=NOON)

        statuses = [(await job_of(store, receipt)).status for receipt in receipts]
        assert statuses == [JobStatus.COMPLETED, JobStatus.PENDING, JobStatus.COMPLETED]
        assert (await take_one(store)).forced

    @pytest.mark.parametrize("success", ["plain", "edited", "leased later", "told twice"])
    async def test_a_success_counts_before_the_refusals_beside_it(self, store: Store, success: str) -> None:
        """An hour of refusals, and one success settled together with the last: the provider still serves requests."""
        refused = await write(store, "A", "a")
        await store.settle([Released(await take_one(store), refused=FAULT)], now=NOON)
        at = NOON + HOUR
        await write(store, "B", "b", at=at)
        first = await take(store, at=at, limit=1 if success == "leased later" else 2)
        [one, two] = [*first, *await take(store, at=at)]
        if success == "edited":
            await write(store, "C", "b", at=at)
        between = [Released(two)] if success == "told twice" else []

        settled = await store.settle([Released(one, refused=FAULT), *between, done(two)], now=at)

        assert settled.jobs == {one.job_id, two.job_id}
        assert (await job_of(store, refused)).status is JobStatus.PENDING

    async def test_renew_leaves_out_what_has_left_the_lease(self, store: Store) -> None:
        """Of five in one lease: one was settled, one cancelled, one deleted; the others are still held."""
        receipts = await write_many(store, 5)
        leases = await take(store)
        await store.settle([done(leases[0])], now=NOON)
        await store.cancel(receipts[1].job_id or JobId(""), now=NOON)
        await store.delete(NOTES, [RecordId("r2")], now=NOON)

        renewed = await store.renew(leases, span=LEASE, now=NOON + MINUTE)

        assert renewed == {leases[3].job_id, leases[4].job_id}
        held = (await store.jobs(JobFilter(status=JobStatus.PROCESSING))).items
        assert {job.lease_until for job in held} == {NOON + MINUTE + LEASE}

    async def test_a_lease_that_lost_its_job_says_nothing_of_it(self, store: Store) -> None:
        """Cancelled, revived and leased by another while a worker runs: the first lease changes and moves nothing."""
        [receipt, *_] = await write_many(store, 2)
        [stale, _] = await take(store, "w1")
        await store.cancel(receipt.job_id or JobId(""), now=NOON)
        await store.revive(JobFilter(), job=receipt.job_id, now=NOON)

        unwelcome: list[Outcome] = [retry(stale), failed(stale), Released(stale)]
        for outcome in unwelcome:
            assert (await store.settle([outcome], now=NOON)).jobs == frozenset()
        fresh = await take_one(store, "w2")
        for outcome in [*unwelcome, done(stale)]:
            assert (await store.settle([outcome], now=NOON)).jobs == frozenset()

        job = await job_of(store, receipt)
        assert (job.status, job.worker_id, job.attempts) == (JobStatus.PROCESSING, "w2", 0)
        assert await store.misplaced() == []
        assert (await store.settle([done(fresh)], now=NOON)).jobs == {receipt.job_id}

    @pytest.mark.parametrize("outcome", [retry, failed, Released, done])
    async def test_a_lease_that_lost_its_job_settles_nothing_of_the_next(
        self, store: Store, outcome: Callable[[Lease], Outcome]
    ) -> None:
        """Another worker has the job by now: the first one's outcome is none of it."""
        [receipt, *_] = await write_many(store, 2)
        [stale, _] = await take(store, "w1")
        await store.cancel(receipt.job_id or JobId(""), now=NOON)
        await store.revive(JobFilter(), job=receipt.job_id, now=NOON)
        fresh = await take_one(store, "w2")

        assert (await store.settle([outcome(stale)], now=NOON)).jobs == frozenset()

        job = await job_of(store, receipt)
        assert (job.status, job.worker_id, job.attempts) == (JobStatus.PROCESSING, "w2", 0)
        assert (await store.settle([done(fresh)], now=NOON)).jobs == {receipt.job_id}

    async def test_jobs_that_crashed_are_leased_one_by_one(self, store: Store) -> None:
        """Two crashing texts: each is leased without its neighbours, and without the other."""
        at = await _crash_twice(store, "one", "two", at=NOON)

        alone = [await take(store, f"w{n}", at=at) for n in range(3)]

        assert [len(leases) for leases in alone] == [1, 1, 0]
        assert {leases[0].record_id for leases in alone[:2]} == {"one", "two"}
        assert {leases[0].crashes for leases in alone[:2]} == {2}

    async def test_a_job_that_crashed_is_not_fetched_ahead_beside_one_that_is_due(self, store: Store) -> None:
        """A job whose wait has just ended is prefetched without it; nor is it prefetched where it is the only one."""
        at = await _crash_twice(store, "deadly", at=NOON)
        waits = await write(store, "waits", "waits", at=at)
        [lease] = await take(store, at=at, prefetch=True)
        await store.settle([retry(lease)], now=at)

        ahead = [await take(store, at=at + MINUTE, prefetch=True) for _ in range(4)]

        assert [[lease.job_id for lease in leases] for leases in ahead] == [[waits.job_id], [], [], []]
        assert [lease.record_id for lease in await take(store, at=at + MINUTE)] == ["deadly"]


async def _crash_twice(store: Store, *texts: str, at: datetime) -> datetime:
    """Put texts that crash their worker twice; return the moment when they are queued again."""
    for text in texts:
        await write(store, text, text, at=at)
    for _ in range(2):
        await take(store, at=at)
        at += 2 * LEASE
        await store.rescue(now=at)
    return at
