"""Lists have an order, the same on every store."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from embedq.model import (
    ErrorCategory,
    Failed,
    Fault,
    HealthReport,
    JobFilter,
    JobStatus,
    NewRecord,
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
    MINUTE,
    NOON,
    NOTES,
    SECOND,
    Stage,
    declaration,
    done,
    embed_all,
    failed,
    retry,
    take,
    write,
)

MIXED = ("c", "a", "d", "B", "b", "10", "é", "9")  # not in the order of ids
TODAY = NOON + 30 * DAY
Meanwhile = Callable[[], Awaitable[None]]


class OrderFacts(Stage):
    """The order of lists."""

    async def test_missing_records_come_as_they_were_first_put(self, store: Store) -> None:
        """Neither their ids nor later edits matter, and paging by key returns each once."""
        await _put(store, MIXED)
        await _put(store, ("f", "a", "e", "c", "A"), text="edited")

        walked: list[str] = []
        key = None
        while stretch := await store.missing(NOTES, after=key, limit=3):
            walked += [found.id for found in stretch]
            key = stretch[-1].key

        assert walked == [*MIXED, "f", "e", "A"]

    @pytest.mark.parametrize("status", ["pending", "failed"])
    async def test_records_without_a_vector_come_as_they_were_first_put(self, store: Store, status: str) -> None:
        """The list of records by status has the order of what is missing."""
        await _put(store, MIXED)
        if status == "failed":
            await store.settle([failed(lease) for lease in reversed(await take(store))], now=NOON)

        assert [record.id for record in (await store.records(NOTES, status=status)).items] == list(MIXED)

    async def test_jobs_come_by_their_record_newest_first(self, store: Store) -> None:
        """A job's position is its record's, whatever its state, and also if it is a later job of the same record."""
        await _put(store, MIXED)
        leases = {lease.record_id: lease for lease in await take(store)}
        await store.settle([done(leases[RecordId(name)]) for name in ("a", "9", "d")], now=NOON)
        await store.purge(older_than=DAY, now=TODAY)
        for name in ("9", "d", "a"):
            await write(store, "edited", name, at=TODAY)

        assert await _jobs(store) == list(reversed(MIXED))
        assert await _pages(store, JobFilter()) == list(reversed(MIXED))

    @pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.RETRYING])
    async def test_jobs_of_a_status_come_by_their_record_too(self, store: Store, status: JobStatus) -> None:
        """Not as they failed, were cancelled or were tried."""
        await _put(store, MIXED)
        await embed_all(store)
        await store.purge(older_than=DAY, now=TODAY)
        for name in ("9", "a", "c", "d"):
            await write(store, "edited", name, at=TODAY)
        for lease in await take(store, at=TODAY):
            match status:
                case JobStatus.FAILED:
                    await store.settle([failed(lease)], now=TODAY)
                case JobStatus.RETRYING:
                    await store.settle([retry(lease)], now=TODAY)
                case _:
                    await store.cancel(lease.job_id, now=TODAY)

        assert await _jobs(store, JobFilter(status=status)) == ["9", "d", "a", "c"]
        assert await _pages(store, JobFilter(status=status)) == ["9", "d", "a", "c"]

    async def test_leased_jobs_come_by_their_record_too(self, store: Store) -> None:
        """Not as they were leased."""
        await _put(store, MIXED)
        await embed_all(store)
        await store.purge(older_than=DAY, now=TODAY)
        for name in ("9", "a", "d"):
            await write(store, "edited", name, at=TODAY)
            await take(store, at=TODAY)

        assert await _pages(store, JobFilter(status=JobStatus.PROCESSING)) == ["9", "d", "a"]

    async def test_pending_jobs_come_by_due_time_then_in_queue_order(self, store: Store) -> None:
        """First the waiting ones, the next one due first; then the ready ones, best lane and oldest first.

        A job that becomes due between two pages moves ahead of the reader, and is not missed.
        """
        await _put(store, ("late", "soon"))
        spans = {"late": 5 * MINUTE, "soon": MINUTE}
        await store.settle([retry(lease, after=spans[lease.record_id]) for lease in await take(store)], now=NOON)
        await write(store, "1", "old", at=NOON)
        await write(store, "2", "new", at=NOON + SECOND)
        await write(store, "3", "urgent", at=NOON + 2 * SECOND, priority=Priority.URGENT)

        expected = ["soon", "late", "urgent", "old", "new"]
        assert await _jobs(store, JobFilter(status=JobStatus.PENDING)) == expected
        assert await _pages(store, JobFilter(status=JobStatus.PENDING)) == expected

    async def test_jobs_armed_at_one_moment_are_queued_as_their_records_were_first_put(self, store: Store) -> None:
        """Not as one put happens to name them, also if it makes new jobs for old records."""
        await _put(store, MIXED)
        await embed_all(store)
        await store.purge(older_than=DAY, now=TODAY)
        edited = [NewRecord(id=RecordId(name), text=f"edited {name}") for name in ("9", "d", "a", "c")]
        await store.put(NOTES, edited, now=TODAY)

        assert await _pages(store, JobFilter(status=JobStatus.PENDING)) == ["c", "a", "d", "9"]
        assert [lease.record_id for lease in await take(store, at=TODAY)] == ["c", "a", "d", "9"]

    async def test_records_come_by_the_bytes_of_their_ids(self, store: Store) -> None:
        """In pages too; no locale's order matters."""
        await _put(store, MIXED)
        expected = sorted(MIXED, key=str.encode)

        assert await _records(store) == expected
        await embed_all(store)
        assert await _records(store, status="embedded") == expected

    async def test_records_are_read_in_the_order_they_are_asked_for(self, store: Store) -> None:
        """Each once, and missing ones are left out."""
        await _put(store, MIXED)

        found = await store.get(NOTES, [RecordId(name) for name in ("b", "nobody", "10", "b", "c")])

        assert [record.id for record in found] == ["b", "10", "c"]

    @pytest.mark.parametrize("status", [None, JobStatus.PENDING, JobStatus.FAILED])
    async def test_a_walk_over_jobs_meets_each_once_while_others_come(
        self, store: Store, status: JobStatus | None
    ) -> None:
        """Whatever existed all the while is returned, whatever is put between two pages."""
        await _put(store, MIXED)
        if status is JobStatus.FAILED:
            await store.settle([failed(lease) for lease in await take(store)], now=NOON)

        walked = await _pages(store, JobFilter(status=status), meanwhile=_newcomers(store, status))

        assert [name for name in walked if name in MIXED] == await _old_jobs(store, status)
        assert len(walked) == len(set(walked))

    @pytest.mark.parametrize("status", [None, "pending", "failed"])
    async def test_a_walk_over_records_meets_each_once_while_others_come(
        self, store: Store, status: str | None
    ) -> None:
        """By id and by status."""
        await _put(store, MIXED)
        if status == "failed":
            await store.settle([failed(lease) for lease in await take(store)], now=NOON)
        expected = await _records(store, status=status)

        walked = await _records(store, status=status, meanwhile=_newcomers(store, status))

        assert [name for name in walked if name in MIXED] == expected
        assert len(walked) == len(set(walked))

    async def test_reports_per_collection_come_by_name(self, store: Store) -> None:
        """Counts and waits, whichever collection was declared first."""
        for name in ("zebra", "Ant", "ant"):
            await store.declare(declaration(name), now=NOON)
            await store.put(name, [NewRecord(id=RecordId("a"), text="A")], now=NOON)
        await write(store, "A")
        expected = ["Ant", "ant", "notes", "zebra"]

        assert [found.declaration.name for found in await store.collections()] == expected
        assert list(await store.counts()) == expected
        assert list(await store.oldest_pending(now=NOON + SECOND)) == expected

    async def test_jobs_that_are_taken_back_come_lease_by_lease(self, store: Store) -> None:
        """The older lease first, and its jobs as they were leased."""
        await _put(store, MIXED)
        first = await take(store, "w1", limit=3)
        second = await take(store, "w2", limit=3)

        rescued = await store.rescue(now=NOON + DAY)

        assert [job.job_id for job in rescued] == [lease.job_id for lease in (*first, *second)]

    async def test_workers_come_as_they_were_registered(self, store: Store) -> None:
        """Not by their names, nor as they were seen."""
        for name in ("w2", "w10", "w1"):
            await store.register(_worker(name), now=NOON)
        await store.beat(WorkerId("w10"), HealthReport(), now=NOON + SECOND)

        assert [worker.info.id for worker in await store.workers(heartbeat=MINUTE, now=NOON)] == ["w2", "w10", "w1"]

    async def test_pending_jobs_have_no_reason(self, store: Store) -> None:
        """A filter by reason applies to every status."""
        await write(store, "A")

        assert await _jobs(store, JobFilter(status=JobStatus.PENDING, reason=Reason.QUOTA)) == []

    async def test_causes_come_with_the_commonest_first(self, store: Store) -> None:
        """Equally common ones by their names, and each with its newest message."""
        await _put(store, ("a", "b", "c", "d"))
        faults = (("x", "first"), ("x", "and then"), ("b", "one"), ("B", "other"))
        for number, (lease, (code, message)) in enumerate(zip(await take(store), faults, strict=True)):
            fault = Fault(ErrorCategory.PERMANENT, code, message)
            await store.settle([Failed(lease, fault, Reason.PERMANENT_ERROR)], now=NOON + number * SECOND)

        groups = await store.dead_stats()

        assert [(group["code"], group["count"], group["example"]) for group in groups] == [
            ("x", 2, "and then"),
            ("B", 1, "other"),
            ("b", 1, "one"),
        ]


async def _put(store: Store, names: Sequence[str], *, text: str = "text") -> None:
    """Put these records in one call."""
    await store.put(NOTES, [NewRecord(id=RecordId(name), text=f"{text} of {name}") for name in names], now=NOON)


async def _jobs(store: Store, which: JobFilter | None = None) -> list[str]:
    return [job.record_id for job in (await store.jobs(which or JobFilter())).items]


async def _pages(store: Store, which: JobFilter, *, meanwhile: Meanwhile | None = None) -> list[str]:
    """Read a list of jobs in pages of two."""
    page = await store.jobs(which, limit=2)
    found = [job.record_id for job in page.items]
    while page.next_cursor is not None:
        if meanwhile is not None:
            await meanwhile()
        page = await store.jobs(which, limit=2, cursor=page.next_cursor)
        found += [job.record_id for job in page.items]
    return [str(name) for name in found]


async def _records(store: Store, *, status: str | None = None, meanwhile: Meanwhile | None = None) -> list[str]:
    """Read a list of records in pages of two."""
    page = await store.records(NOTES, status=status, limit=2)
    found = [record.id for record in page.items]
    while page.next_cursor is not None:
        if meanwhile is not None:
            await meanwhile()
        page = await store.records(NOTES, status=status, limit=2, cursor=page.next_cursor)
        found += [record.id for record in page.items]
    return [str(name) for name in found]


async def _old_jobs(store: Store, status: JobStatus | None) -> list[str]:
    return [name for name in await _pages(store, JobFilter(status=status)) if name in MIXED]


def _newcomers(store: Store, status: str | None) -> Meanwhile:
    """Put new records between two pages: before, among and after the others, by id and by lane."""
    left = [("-", Priority.LOW), ("aa", Priority.URGENT), ("zz", Priority.NORMAL)]

    async def come() -> None:
        if not left:
            return
        name, lane = left.pop()
        await write(store, f"text of {name}", name, at=NOON + SECOND, priority=lane)
        if status == JobStatus.FAILED:
            await store.settle([failed(lease) for lease in await take(store, at=NOON + SECOND)], now=NOON + SECOND)

    return come


def _worker(name: str) -> WorkerInfo:
    process = Process(host="h", boot="b", pid=1, born="1")
    return WorkerInfo(id=WorkerId(name), process=process, version="1", embedder="fake")
