"""Leasing, renewing, settling in batches, lanes."""

from embedq.model import (
    Ask,
    Done,
    EmbeddingStatus,
    JobFilter,
    JobStatus,
    Outcome,
    Priority,
    RecordId,
    Released,
    Skipped,
    WorkerId,
)
from embedq.ports import Store
from embedq.testing.stores.stage import (
    LATE,
    LEASE,
    MINUTE,
    NOON,
    NOTES,
    SECOND,
    Stage,
    done,
    embed_all,
    failed,
    job_of,
    read,
    retry,
    space_of,
    take,
    take_one,
    write,
    write_many,
)


class LeaseFacts(Stage):
    """How jobs are leased and taken back."""

    async def test_a_lease_brings_what_a_worker_needs(self, store: Store) -> None:
        """Text, hash, attempts and policy come with the lease: no lookup per job."""
        await write(store, "A")

        lease = await take_one(store)

        assert (lease.collection, lease.record_id, lease.text, lease.attempts) == (NOTES, "a", "A", 0)
        assert (lease.current, lease.forced, lease.until) == (False, False, NOON + LEASE)
        assert lease.retry.max_attempts == 3

    async def test_no_more_than_asked_for(self, store: Store) -> None:
        """The limit holds, and the rest waits."""
        await write_many(store, 25)

        sizes = [len(await take(store, limit=10)) for _ in range(4)]

        assert sizes == [10, 10, 5, 0]

    async def test_only_the_asked_spaces(self, store: Store) -> None:
        """Jobs of a space that a worker cannot embed now are left alone."""
        await write(store, "A")
        ask = Ask(worker=WorkerId("w"), spaces=[], limit=10, span=LEASE)

        leased = await store.lease(ask, now=NOON)

        assert list(leased.leases) == []

    async def test_older_goes_first_within_a_lane(self, store: Store) -> None:
        """Age decides among equals."""
        for minute, name in enumerate("abc"):
            await write(store, name, name, at=NOON + minute * MINUTE)

        leases = await take(store, at=NOON + 3 * MINUTE)

        assert [lease.record_id for lease in leases] == ["a", "b", "c"]

    async def test_lanes_are_strict(self, store: Store) -> None:
        """Urgent before high before normal before low, whatever their age."""
        for minute, priority in enumerate([Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.URGENT]):
            await write(store, priority.name, priority.name, at=NOON + minute * MINUTE, priority=priority)

        leases = await take(store, at=NOON + 5 * MINUTE)

        assert [lease.record_id for lease in leases] == ["URGENT", "HIGH", "NORMAL", "LOW"]

    async def test_a_low_job_still_moves_under_load(self, store: Store) -> None:
        """One lease in ten starts at the lowest lane that has work."""
        await write(store, "low", "low", priority=Priority.LOW)
        await write_many(store, 30)

        taken = [(await take(store, limit=1))[0].record_id for _ in range(10)]

        assert taken.count(RecordId("low")) == 1

    async def test_a_repeated_put_keeps_the_higher_priority(self, store: Store) -> None:
        """Higher moves it up, lower changes nothing."""
        await write_many(store, 3)
        await write(store, "A", "late", at=NOON + MINUTE)
        await write(store, "A", "late", at=NOON + MINUTE, priority=Priority.URGENT)
        receipt = await write(store, "A", "late", at=NOON + MINUTE, priority=Priority.LOW)

        [first] = await take(store, at=NOON + MINUTE, limit=1)

        assert first.record_id == "late"
        assert (await job_of(store, receipt)).priority is Priority.URGENT

    async def test_an_edit_keeps_its_queue_position(self, store: Store) -> None:
        """A record that is edited all the time is not moved to the end all the time."""
        await write(store, "A", "a", at=NOON)
        await write(store, "B", "b", at=NOON + MINUTE)
        await write(store, "A2", "a", at=NOON + 2 * MINUTE)

        leases = await take(store, at=NOON + 3 * MINUTE)

        assert [(lease.record_id, lease.text) for lease in leases] == [("a", "A2"), ("b", "B")]

    async def test_a_retry_waits_and_comes_back(self, store: Store) -> None:
        """Not before it is due; and an empty answer says how long to wait."""
        receipt = await write(store, "A")
        await store.settle([retry(await take_one(store), after=MINUTE)], now=NOON)
        ask = Ask(worker=WorkerId("w"), spaces=[await space_of(store)], limit=1, span=LEASE)

        waiting = await store.lease(ask, now=NOON + 20 * SECOND)

        assert (list(waiting.leases), waiting.again_after) == ([], 40 * SECOND)
        assert (await job_of(store, receipt)).status is JobStatus.RETRYING
        again = await take_one(store, at=NOON + MINUTE)
        assert again.attempts == 1

    async def test_an_edit_ends_the_wait(self, store: Store) -> None:
        """A new text does not wait for the old one's backoff."""
        await write(store, "A")
        await store.settle([retry(await take_one(store), after=MINUTE)], now=NOON)
        await write(store, "B")

        lease = await take_one(store)

        assert (lease.text, lease.attempts) == ("B", 0)

    async def test_settling_leases_the_next_batch(self, store: Store) -> None:
        """Settle and the next lease are one call."""
        await write_many(store, 4)
        first = await take(store, limit=2)
        ask = Ask(worker=WorkerId("w1"), spaces=[await space_of(store)], limit=2, span=LEASE)

        settled = await store.settle([done(lease) for lease in first], then=ask, now=NOON)

        assert len(settled.jobs) == 2
        assert len(settled.next.leases) == 2
        assert not {lease.job_id for lease in settled.next.leases} & settled.jobs

    async def test_outcomes_of_one_batch_may_differ(self, store: Store) -> None:
        """Each job of a batch ends its own way, and what is not settled stays leased."""
        receipts = await write_many(store, 6)
        leases = await take(store)
        outcomes: list[Outcome] = [
            done(leases[0]),
            retry(leases[1]),
            failed(leases[2]),
            Released(leases[3]),
            Skipped(leases[4]),
        ]

        settled = await store.settle(outcomes, now=NOON)

        statuses = [(await job_of(store, receipt)).status.value for receipt in receipts]
        assert len(settled.jobs) == 5
        assert statuses == ["completed", "retrying", "failed", "pending", "cancelled", "processing"]
        assert await store.renew(leases, span=LEASE, now=NOON) == {leases[5].job_id}

    async def test_a_job_settled_twice_in_one_call_counts_once(self, store: Store) -> None:
        """The sums are right also when a caller repeats itself."""
        await write(store, "A")
        lease = await take_one(store)
        await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)

        await store.settle([done(lease), done(lease)], now=NOON)

        counts = (await store.counts())[NOTES]
        assert (counts.missing, counts.pending, counts.completed) == (0, 1, 0)

    async def test_outcomes_of_several_leases_settle_together(self, store: Store) -> None:
        """One call may settle jobs of different batches, some of them lost."""
        await write_many(store, 4)
        first, second = await take(store, limit=2), await take(store, limit=2)
        await store.rescue(now=LATE)
        stolen = await take(store, "w2", at=LATE, limit=2)

        settled = await store.settle([done(lease) for lease in (*first, *second)], now=LATE)

        assert settled.jobs == {lease.job_id for lease in (*first, *second)} - {lease.job_id for lease in stolen}

    async def test_a_current_vector_is_done_without_a_call(self, store: Store) -> None:
        """A lease says that nothing needs to be done, and Done without a vector completes it."""
        await write(store, "A")
        await embed_all(store)
        await write(store, "B")
        receipt = await write(store, "A")
        lease = await take_one(store)

        await store.settle([Done(lease)], now=NOON)

        assert lease.current
        assert (await job_of(store, receipt)).status is JobStatus.COMPLETED

    async def test_done_without_a_vector_needs_one(self, store: Store) -> None:
        """It cannot complete a record that has no vector."""
        receipt = await write(store, "A")

        await store.settle([Done(await take_one(store))], now=NOON)

        assert (await job_of(store, receipt)).status is JobStatus.PENDING

    async def test_renew_extends_from_now(self, store: Store) -> None:
        """A renewed lease is not rescued when the first span is over."""
        await write(store, "A")
        lease = await take_one(store)

        renewed = await store.renew([lease], span=LEASE, now=NOON + 4 * MINUTE)

        assert renewed == {lease.job_id}
        assert await store.rescue(now=LATE) == []
        assert len(await store.rescue(now=NOON + 9 * MINUTE + SECOND)) == 1

    async def test_renew_revives_an_expired_lease_that_was_not_rescued(self, store: Store) -> None:
        """Late is not lost."""
        await write(store, "A")
        lease = await take_one(store)

        assert await store.renew([lease], span=LEASE, now=LATE) == {lease.job_id}
        assert await store.rescue(now=LATE + MINUTE) == []

    async def test_renew_after_rescue_is_refused(self, store: Store) -> None:
        """A rescued job is not taken back."""
        await write(store, "A")
        lease = await take_one(store)
        await store.rescue(now=LATE)

        assert await store.renew([lease], span=LEASE, now=LATE) == set()

    async def test_rescue_names_the_jobs(self, store: Store) -> None:
        """The log shows which jobs were taken back, and from which worker."""
        receipt = await write(store, "A")
        await take_one(store, "w1")

        [rescued] = await store.rescue(now=LATE)

        assert (rescued.job_id, rescued.record_id, rescued.worker_id) == (receipt.job_id, "a", "w1")
        assert (rescued.crashes, rescued.status) == (1, JobStatus.PENDING)

    async def test_rescue_of_a_dead_worker_does_not_wait(self, store: Store) -> None:
        """A worker that is known to be dead holds nothing."""
        await write_many(store, 2)
        await take(store, "dead", limit=1)
        await take(store, "alive", limit=1)

        rescued = await store.rescue(dead=[WorkerId("dead")], now=NOON)

        assert [found.worker_id for found in rescued] == ["dead"]

    async def test_rescue_by_hand_takes_what_was_not_renewed(self, store: Store) -> None:
        """An operator may set a shorter limit than the lease's."""
        await write(store, "A")
        await take_one(store)

        assert await store.rescue(unrenewed_for=2 * MINUTE, now=NOON + MINUTE) == []
        assert len(await store.rescue(unrenewed_for=2 * MINUTE, now=NOON + 2 * MINUTE)) == 1

    async def test_a_job_that_crashed_twice_is_leased_alone(self, store: Store) -> None:
        """One crashing text does not take its neighbours with it, and is never prefetched."""
        deadly = await write(store, "deadly", "deadly")
        at = NOON
        for _ in range(2):
            await take_one(store, at=at)
            at += 2 * LEASE
            await store.rescue(now=at)
        await write_many(store, 5, at=at)

        ahead = await take(store, at=at, prefetch=True)
        [alone] = await take(store, at=at)

        assert deadly.job_id not in {lease.job_id for lease in ahead}
        assert (len(ahead), alone.job_id) == (5, deadly.job_id)

    async def test_a_crashed_job_does_not_block_the_others(self, store: Store) -> None:
        """The others are leased beside a crashing text."""
        await write(store, "deadly", "deadly")
        at = NOON
        for _ in range(2):
            await take_one(store, at=at)
            at += 2 * LEASE
            await store.rescue(now=at)
        await write_many(store, 2, at=at)

        taken = [await take(store, at=at) for _ in range(2)]

        assert sorted(len(leases) for leases in taken) == [1, 2]

    async def test_forced_stays_until_it_is_done(self, store: Store) -> None:
        """A forced job that fails once is still forced."""
        await write(store, "A")
        await embed_all(store)
        await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)
        await store.settle([retry(await take_one(store))], now=NOON)

        lease = await take_one(store, at=NOON + MINUTE)

        assert lease.forced
        await store.settle([done(lease)], now=NOON + MINUTE)
        await write(store, "B", at=NOON + MINUTE)
        assert not (await take_one(store, at=NOON + MINUTE)).forced

    async def test_an_embedding_status_follows_its_job(self, store: Store) -> None:
        """Pending, failed with its reason, pending again after a revival, embedded."""
        receipt = await write(store, "A")
        seen = [(await read(store)).embedding_status]
        await store.settle([failed(await take_one(store))], now=NOON)
        seen.append((await read(store)).embedding_status)
        assert receipt.job_id
        await store.revive(JobFilter(), job=receipt.job_id, now=NOON)
        seen.append((await read(store)).embedding_status)
        await embed_all(store)
        seen.append((await read(store)).embedding_status)

        assert seen == [
            EmbeddingStatus.PENDING,
            EmbeddingStatus.FAILED,
            EmbeddingStatus.PENDING,
            EmbeddingStatus.EMBEDDED,
        ]
