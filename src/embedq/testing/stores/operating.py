"""What operators use: lists, counts, cancel, revive, purge, workers."""

from datetime import timedelta

from embedq.model import (
    Health,
    HealthReport,
    JobFilter,
    JobId,
    JobStatus,
    Priority,
    Process,
    Reason,
    RecordId,
    WorkerId,
    WorkerInfo,
)
from embedq.ports import Store
from embedq.testing.stores.stage import (
    DAY,
    FAULT,
    HOUR,
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
    take,
    take_one,
    write,
    write_many,
)

WEEK = 7 * DAY


class OperatingFacts(Stage):
    """The operator's calls."""

    async def test_counts_per_collection_and_status(self, store: Store) -> None:
        """Every job counts once, under its collection and its status."""
        await write_many(store, 6)
        leases = await take(store, limit=4)
        await store.settle([done(leases[0]), failed(leases[1])], now=NOON)

        counts = (await store.counts())[NOTES]

        assert (counts.pending, counts.processing, counts.completed, counts.failed) == (2, 2, 1, 1)
        assert (counts.records, counts.missing) == (6, 5)

    async def test_jobs_are_listed_by_status(self, store: Store) -> None:
        """Each status has its list, and `retrying` is what a pending job with failures is called."""
        await write_many(store, 5)
        leases = await take(store, limit=4)
        await store.settle([done(leases[0]), failed(leases[1]), retry(leases[2])], now=NOON)

        found = {
            status: [job.record_id for job in (await store.jobs(JobFilter(status=status))).items]
            for status in JobStatus
        }

        assert found[JobStatus.COMPLETED] == ["r0"]
        assert found[JobStatus.FAILED] == ["r1"]
        assert found[JobStatus.RETRYING] == ["r2"]
        assert found[JobStatus.PROCESSING] == ["r3"]
        assert sorted(found[JobStatus.PENDING]) == ["r2", "r4"]
        assert found[JobStatus.CANCELLED] == []

    async def test_lists_go_on_at_their_cursor(self, store: Store) -> None:
        """Pages contain every job once."""
        await write_many(store, 25)
        await store.settle([done(lease) for lease in await take(store, limit=12)], now=NOON)
        for status in (None, JobStatus.PENDING, JobStatus.COMPLETED):
            seen: list[JobId] = []
            cursor = None
            while True:
                page = await store.jobs(JobFilter(status=status), limit=4, cursor=cursor)
                seen += [job.id for job in page.items]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert len(seen) == len(set(seen)) == {None: 25, JobStatus.PENDING: 13, JobStatus.COMPLETED: 12}[status]

    async def test_a_job_has_its_history(self, store: Store) -> None:
        """When it was created, started and ended, which worker did it, and what failed before."""
        receipt = await write(store, "A")
        await store.settle([retry(await take_one(store))], now=NOON + SECOND)
        lease = await take_one(store, "w2", at=NOON + MINUTE)
        running = await job_of(store, receipt)
        await store.settle([done(lease)], now=NOON + MINUTE + 2 * SECOND)

        job = await job_of(store, receipt)

        assert (running.status, running.worker_id, running.attempts) == (JobStatus.PROCESSING, "w2", 1)
        assert running.error == FAULT
        assert (job.created_at, job.started_at) == (NOON, NOON + MINUTE)
        assert (job.completed_at, job.processing_time_ms) == (NOON + MINUTE + 2 * SECOND, 2000)
        assert (job.worker_id, job.error, job.lease_until) == ("w2", None, None)

    async def test_a_dead_letter_keeps_why(self, store: Store) -> None:
        """Category, code, message, attempts, reason, first and last attempt."""
        receipt = await write(store, "A")
        await store.settle([retry(await take_one(store))], now=NOON)
        await store.settle([failed(await take_one(store, at=NOON + MINUTE))], now=NOON + MINUTE)

        job = await job_of(store, receipt)

        assert (job.status, job.reason, job.error, job.attempts) == (
            JobStatus.FAILED,
            Reason.PERMANENT_ERROR,
            FAULT,
            2,
        )
        assert (job.first_attempt_at, job.last_attempt_at) == (NOON, NOON + MINUTE)

    async def test_dead_letters_are_grouped_by_cause(self, store: Store) -> None:
        """It is visible which cause is behind most of them."""
        await write_many(store, 3)
        await store.settle([failed(lease) for lease in await take(store)], now=NOON)

        [group] = await store.dead_stats()

        assert (group["collection"], group["reason"], group["code"], group["count"]) == (
            NOTES,
            Reason.PERMANENT_ERROR,
            "500",
            3,
        )

    async def test_unknown_jobs_do_not_exist(self, store: Store) -> None:
        """A number that was never used, and what is not a number, is no job."""
        for wanted in ("999999", "no number", "", "9" * 30):
            assert await store.job(JobId(wanted)) is None
            assert await store.cancel(JobId(wanted), now=NOON) is None
            assert await store.revive(JobFilter(), job=JobId(wanted), now=NOON) == 0

    async def test_cancel_removes_a_job_from_the_queue(self, store: Store) -> None:
        """A pending job is not leased any more, and its record says so."""
        receipt = await write(store, "A")
        assert receipt.job_id

        cancelled = await store.cancel(receipt.job_id, now=NOON)

        assert cancelled
        assert (cancelled.status, cancelled.reason) == (JobStatus.CANCELLED, Reason.CANCELLED)
        assert await take(store) == []
        assert (await read(store)).reason is Reason.CANCELLED

    async def test_cancel_leaves_ended_jobs_alone(self, store: Store) -> None:
        """An ended job does not change."""
        receipt = await write(store, "A")
        await embed_all(store)
        assert receipt.job_id

        job = await store.cancel(receipt.job_id, now=NOON)

        assert job
        assert job.status is JobStatus.COMPLETED

    async def test_a_changed_text_arms_a_cancelled_job(self, store: Store) -> None:
        """So does a force, and so does a revival."""
        receipt = await write(store, "A")
        assert receipt.job_id
        await store.cancel(receipt.job_id, now=NOON)
        await write(store, "B")
        assert len(await take(store)) == 1

        await store.cancel(receipt.job_id, now=NOON)
        await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)
        assert len(await take(store)) == 1

        await store.cancel(receipt.job_id, now=NOON)
        assert await store.revive(JobFilter(), job=receipt.job_id, now=NOON) == 1
        assert len(await take(store)) == 1

    async def test_revive_by_reason_and_collection(self, store: Store) -> None:
        """Dead letters are revived by what they share; each step returns how many."""
        await write_many(store, 5)
        await store.settle([failed(lease) for lease in await take(store)], now=NOON)

        assert await store.revive(JobFilter(reason=Reason.QUOTA), now=NOON) == 0
        assert await store.revive(JobFilter(reason=Reason.PERMANENT_ERROR, collection=NOTES), limit=3, now=NOON) == 3
        assert await store.revive(JobFilter(), now=NOON) == 2
        assert await store.revive(JobFilter(), now=NOON) == 0
        assert [lease.attempts for lease in await take(store)] == [0] * 5

    async def test_a_dead_letter_of_a_deleted_record_stays(self, store: Store) -> None:
        """It is kept for operators, and nothing revives it."""
        receipt = await write(store, "A")
        await store.settle([failed(await take_one(store))], now=NOON)
        await store.delete(NOTES, [RecordId("a")], now=NOON)

        assert (await job_of(store, receipt)).status is JobStatus.FAILED
        assert await store.revive(JobFilter(), now=NOON) == 0

    async def test_purge_removes_old_ended_jobs_only(self, store: Store) -> None:
        """Completed, failed and cancelled past retention are removed; pending and processing stay, however old."""
        receipts = await write_many(store, 5)
        leases = await take(store, limit=3)
        await store.settle([done(leases[0]), failed(leases[1])], now=NOON)
        assert receipts[4].job_id
        await store.cancel(receipts[4].job_id, now=NOON + WEEK)

        removed = await store.purge(older_than=WEEK, now=NOON + WEEK + HOUR)

        assert removed == 2
        assert await store.purge(older_than=WEEK, now=NOON + WEEK + HOUR) == 0
        left = (await store.jobs(JobFilter())).items
        assert {job.record_id for job in left} == {"r2", "r3", "r4"}
        counts = (await store.counts())[NOTES]
        assert (counts.completed, counts.failed, counts.cancelled) == (0, 0, 1)

    async def test_a_purged_dead_letter_is_not_paid_for_again(self, store: Store) -> None:
        """The record keeps what was given up on, and why."""
        await write(store, "A")
        await store.settle([failed(await take_one(store))], now=NOON)
        await store.purge(older_than=WEEK, now=NOON + 2 * WEEK)

        assert (await read(store)).reason is Reason.PERMANENT_ERROR
        assert [found.needs_job for found in await store.missing(NOTES)] == [False]
        assert await store.reconcile(NOTES, [RecordId("a")], now=NOON) == 0
        receipt = await write(store, "A")
        assert receipt.job_id is None

    async def test_the_oldest_pending_job_is_known(self, store: Store) -> None:
        """Per collection, how long it has waited, also behind a younger one that is urgent."""
        await write(store, "A", "a", at=NOON)
        await write(store, "B", "b", at=NOON + HOUR)
        await store.enqueue(NOTES, [RecordId("b")], job_priority=Priority.URGENT, now=NOON + HOUR)

        waits = await store.oldest_pending(now=NOON + 2 * HOUR)

        assert waits == {NOTES: 2 * HOUR}

    async def test_the_registry_reports_live_workers(self, store: Store, other: Store) -> None:
        """A worker that beats is alive, one that missed three heartbeats is not, one that left is gone."""
        for name in ("beats", "silent", "left"):
            await store.register(_worker(name), now=NOON)
        said = {"openai:a": "no such model"}
        report = HealthReport(
            health=Health.DEGRADED, consecutive_failures=5, error_patterns={"500": 5}, halted=("b",), troubles=said
        )
        assert await store.beat(WorkerId("beats"), report, now=NOON + 3 * MINUTE)
        await store.leave(WorkerId("left"))

        workers = {w.info.id: w for w in await other.workers(heartbeat=MINUTE, now=NOON + 3 * MINUTE)}

        assert set(workers) == {"beats", "silent"}
        assert (workers[WorkerId("beats")].alive, workers[WorkerId("silent")].alive) == (True, False)
        assert workers[WorkerId("beats")].report == report
        assert workers[WorkerId("silent")].missed_heartbeats == 3
        assert workers[WorkerId("beats")].info == _worker("beats")

    async def test_an_unregistered_worker_cannot_beat(self, store: Store) -> None:
        """A heartbeat of a worker that never registered is refused."""
        assert not await store.beat(WorkerId("stranger"), HealthReport(), now=NOON)

    async def test_resume_lifts_holds_and_counts(self, store: Store, other: Store) -> None:
        """Every process can see that an operator has resumed."""
        await write(store, "A")
        [space] = await store.spaces()
        await store.hold(space.id, HOUR, now=NOON)
        before = await other.resumes()

        await store.resume()

        assert await other.resumes() == before + 1
        assert len(await take(other)) == 1

    async def test_budgets_can_be_read(self, store: Store) -> None:
        """What was requested from a provider recently, and how long it is on hold."""
        [space] = await store.spaces()
        await store.hold(space.id, MINUTE, now=NOON)

        budgets = await store.budgets(now=NOON + 20 * SECOND)

        assert budgets[space.id]["held_seconds"] == timedelta(seconds=40).total_seconds()


def _worker(name: str) -> WorkerInfo:
    process = Process(host="here", boot="1", pid=7, born="9")
    return WorkerInfo(id=WorkerId(name), process=process, version="1", embedder="fake")
