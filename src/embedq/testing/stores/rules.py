"""What breaks without the rules: each trace of the last table of docs/explanation/rules.md, as a test."""

from datetime import timedelta

from embedq.model import Done, EmbeddingStatus, JobFilter, JobStatus, Reason, RecordId, Released
from embedq.ports import Store
from embedq.testing.stores.stage import (
    LATE,
    LEASE,
    NOON,
    NOTES,
    SECOND,
    Stage,
    done,
    embed_all,
    failed,
    has_vector_of,
    job_of,
    read,
    retry,
    take,
    take_one,
    write,
)


class RuleFacts(Stage):
    """One test per row."""

    async def test_a_stale_done_does_not_complete(self, store: Store) -> None:
        """An edit while its job runs is not lost: the job runs again."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await write(store, "B")

        await store.settle([done(lease)], now=NOON)

        assert (await job_of(store, receipt)).status is JobStatus.PENDING
        assert (await take_one(store)).text == "B"

    async def test_failed_of_an_old_text_makes_no_dead_letter(self, store: Store) -> None:
        """A permanent error of the old text says nothing of the new one."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await write(store, "B")

        await store.settle([failed(lease)], now=NOON)

        job = await job_of(store, receipt)
        assert (job.status, job.attempts) == (JobStatus.PENDING, 0)

    async def test_retry_of_an_old_text_costs_no_attempt(self, store: Store) -> None:
        """A failure of the old text is not charged to the new one, which is due at once."""
        await write(store, "A")
        lease = await take_one(store)
        await write(store, "B")

        await store.settle([retry(lease)], now=NOON)

        assert (await take_one(store)).attempts == 0

    async def test_a_force_while_the_job_runs_is_not_lost(self, store: Store) -> None:
        """The hash alone does not show that the vector was requested again: `armed` does."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)

        await store.settle([done(lease)], now=NOON)

        assert (await job_of(store, receipt)).status is JobStatus.PENDING
        assert await has_vector_of(store, "A")  # it fits, so it is used meanwhile
        again = await take_one(store)
        assert again.forced

    async def test_a_failure_of_before_a_force_costs_nothing(self, store: Store) -> None:
        """The text is the same, but it was requested again: neither attempt nor dead letter nor wait."""
        receipt = await write(store, "A")
        for outcome in (retry, failed):
            lease = await take_one(store)
            await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)

            settled = await store.settle([outcome(lease)], now=NOON)

            job = await job_of(store, receipt)
            assert settled.jobs == {receipt.job_id}
            assert (job.status, job.attempts, job.error) == (JobStatus.PENDING, 0, None)
        assert (await take_one(store)).forced

    async def test_a_late_done_does_not_undo_a_cancel(self, store: Store) -> None:
        """A cancelled job stays cancelled, whatever its token."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        assert receipt.job_id
        await store.cancel(receipt.job_id, now=NOON)

        settled = await store.settle([done(lease)], now=NOON)

        assert settled.jobs == frozenset()
        assert (await job_of(store, receipt)).status is JobStatus.CANCELLED

    async def test_a_retry_settled_twice_counts_once(self, store: Store) -> None:
        """The answer to a retry was lost and it is settled again: one failure."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.settle([retry(lease)], now=NOON)

        await store.settle([retry(lease)], now=NOON)

        assert (await job_of(store, receipt)).attempts == 1

    async def test_a_done_settled_twice_changes_nothing(self, store: Store) -> None:
        """A completed job never changes by settle."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.settle([done(lease)], now=NOON)

        settled = await store.settle([done(lease)], now=NOON + SECOND)

        job = await job_of(store, receipt)
        assert settled.jobs == frozenset()
        assert (job.status, job.completed_at) == (JobStatus.COMPLETED, NOON)

    async def test_a_late_done_is_accepted_if_it_was_not_leased_since(self, store: Store) -> None:
        """A paid result is not discarded because its lease expired."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.rescue(now=LATE)

        settled = await store.settle([done(lease)], now=LATE)

        assert settled.jobs == {receipt.job_id}
        assert (await job_of(store, receipt)).status is JobStatus.COMPLETED
        assert await take(store, at=LATE) == []

    async def test_a_late_done_is_refused_once_another_had_the_lease(self, store: Store) -> None:
        """Rescued, leased by another and released: the first lease is not the last any more."""
        receipt = await write(store, "A")
        stale = await take_one(store, "w1")
        await store.rescue(now=LATE)
        await store.settle([Released(await take_one(store, "w2", at=LATE))], now=LATE)

        settled = await store.settle([done(stale)], now=LATE)

        assert settled.jobs == frozenset()
        assert (await job_of(store, receipt)).status is JobStatus.PENDING
        assert list(await store.known(stale.space, [stale.hash])) == [stale.hash]  # but it is not paid for again

    async def test_a_done_after_its_own_failure_changes_nothing(self, store: Store) -> None:
        """What a worker itself has given up on is a dead letter, whatever the same lease reports later."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.settle([failed(lease)], now=NOON)

        settled = await store.settle([done(lease)], now=NOON)

        assert settled.jobs == frozenset()
        assert (await job_of(store, receipt)).status is JobStatus.FAILED
        assert ((await read(store)).vector is None) == self.one_database  # a pair's corpus does not know leases [11]

    async def test_rescue_does_not_resurrect_a_completed_job(self, store: Store) -> None:
        """Rescue checks and writes in one step."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.settle([done(lease)], now=LATE)

        rescued = await store.rescue(now=LATE)

        assert rescued == []
        assert (await job_of(store, receipt)).status is JobStatus.COMPLETED

    async def test_rescue_does_not_charge_an_armed_job(self, store: Store) -> None:
        """A crash under the old text says nothing of the new one, even at the limit."""
        receipt = await write(store, "A")
        for crash in range(4):
            await take_one(store, at=NOON + crash * 2 * LEASE)
            await store.rescue(now=NOON + (crash * 2 + 1) * LEASE)
        at = NOON + 20 * LEASE
        await take_one(store, at=at)
        await write(store, "B", at=at)

        await store.rescue(now=at + LEASE)

        job = await job_of(store, receipt)
        assert (job.status, job.crashes) == (JobStatus.PENDING, 0)

    async def test_a_deleted_record_gets_no_vector(self, store: Store) -> None:
        """A soft-deleted record keeps its hash: the hash alone is not enough."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [RecordId("a")], now=NOON)

        await store.settle([done(lease)], now=NOON)

        job = await job_of(store, receipt)
        assert (job.status, job.reason) == (JobStatus.CANCELLED, Reason.RECORD_DELETED)
        await write(store, "B")
        assert (await read(store)).vector is None

    async def test_a_record_that_comes_back_is_embedded_again(self, store: Store) -> None:
        """Whether to queue is decided by the corpus, never by the job row's hash."""
        await write(store, "A")
        await embed_all(store)
        await store.delete(NOTES, [RecordId("a")], now=NOON)

        await write(store, "A")

        assert await embed_all(store) == 1
        assert await has_vector_of(store, "A")

    async def test_reconcile_does_not_undo_a_cancel(self, store: Store) -> None:
        """An operator's decision stands until the text changes."""
        receipt = await write(store, "A")
        assert receipt.job_id
        await store.cancel(receipt.job_id, now=NOON)

        [missing] = await store.missing(NOTES)

        assert not missing.needs_job
        assert await store.reconcile(NOTES, [RecordId("a")], now=NOON) == 0
        assert (await write(store, "A")).embedding_status is EmbeddingStatus.FAILED
        assert await take(store) == []

    async def test_a_dead_letter_of_another_text_does_not_count(self, store: Store) -> None:
        """A text that was given up on says nothing of the text that came after it."""
        receipt = await write(store, "A")
        await store.settle([failed(await take_one(store))], now=NOON)

        await write(store, "B")

        assert (await job_of(store, receipt)).status is JobStatus.PENDING
        assert (await take_one(store)).text == "B"

    async def test_edits_there_and_back_end(self, store: Store) -> None:
        """A, B, A again: the vector of A is found to be current, and the job ends."""
        await write(store, "A")
        await embed_all(store)
        await write(store, "B")
        receipt = await write(store, "A")

        lease = await take_one(store)

        assert lease.current
        await store.settle([Done(lease)], now=NOON)
        assert (await job_of(store, receipt)).status is JobStatus.COMPLETED
        assert await take(store) == []

    async def test_a_text_that_comes_back_arms_the_job_on_its_way(self, store: Store) -> None:
        """It has a vector, but a job of the text in between waits: it is due now, and nothing is charged to it."""
        await write(store, "A")
        await embed_all(store)
        await write(store, "B")
        await store.settle([retry(await take_one(store), after=LEASE)], now=NOON)

        await write(store, "A")

        lease = await take_one(store)
        assert (lease.text, lease.current, lease.attempts) == ("A", True, 0)

    async def test_the_lease_takes_text_and_hash_from_the_record(self, store: Store) -> None:
        """The vector is stored under the hash of the text that was read with it."""
        await write(store, "A")
        await write(store, "B")
        lease = await take_one(store)
        await write(store, "A")

        await store.settle([done(lease)], now=NOON)

        assert not await has_vector_of(store, "B")
        assert (await take_one(store)).text == "A"

    async def test_a_spare_vector_is_reused(self, store: Store) -> None:
        """A valid vector that was paid for is kept for reuse whatever became of its record."""
        await write(store, "A")
        lease = await take_one(store)
        await write(store, "B")
        await store.settle([done(lease)], now=NOON)

        known = await store.known(lease.space, [lease.hash])

        assert list(known) == [lease.hash]

    async def test_a_number_is_never_used_again(self, store: Store) -> None:
        """A stale lease cannot act on a job that was created after the one it held."""
        await write(store, "A")
        stale = await take_one(store)
        await store.settle([done(stale)], now=NOON)
        later = NOON + timedelta(days=60)
        while await store.purge(older_than=timedelta(days=14), now=later):
            continue
        receipt = await write(store, "B", at=later)
        fresh = await take_one(store, at=later)

        await store.settle([retry(stale)], now=later)

        assert receipt.job_id != stale.job_id
        assert fresh.token > stale.token
        assert (await job_of(store, receipt)).attempts == 0

    async def test_renew_does_not_take_a_pending_job_back(self, store: Store) -> None:
        """Retry, its answer lost, renew, retry: one failure."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await store.settle([retry(lease)], now=NOON)

        renewed = await store.renew([lease], span=LEASE, now=NOON)
        await store.settle([retry(lease)], now=NOON)

        assert renewed == set()
        assert (await job_of(store, receipt)).attempts == 1

    async def test_a_stale_token_settles_nothing(self, store: Store) -> None:
        """A worker that lost its lease to another cannot finish the job."""
        receipt = await write(store, "A")
        stale = await take_one(store, "w1")
        await store.rescue(now=LATE)
        await take_one(store, "w2", at=LATE)

        for outcome in (done(stale), retry(stale), failed(stale), Released(stale)):
            settled = await store.settle([outcome], now=LATE)
            assert settled.jobs == frozenset()

        job = await job_of(store, receipt)
        assert (job.status, job.worker_id, job.attempts) == (JobStatus.PROCESSING, "w2", 0)

    async def test_a_cancelled_job_that_is_put_again_obeys_no_old_lease(self, store: Store) -> None:
        """Deleted and put again while a worker runs: its old lease is not the new one's."""
        await write(store, "A")
        stale = await take_one(store, "w1")
        await store.delete(NOTES, [RecordId("a")], now=NOON)
        receipt = await write(store, "B")
        fresh = await take_one(store, "w2")

        await store.settle([failed(stale)], now=NOON)
        settled = await store.settle([done(fresh)], now=NOON)

        assert settled.jobs == {receipt.job_id}
        assert await has_vector_of(store, "B")
        assert (await store.jobs(JobFilter(status=JobStatus.FAILED))).items == []
