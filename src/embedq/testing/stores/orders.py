"""Lists have an order, the same on every store."""

from collections.abc import Callable, Iterable, Sequence

import pytest

from embedq.model import (
    ErrorCategory,
    Failed,
    Fault,
    JobFilter,
    JobStatus,
    NewRecord,
    Priority,
    Query,
    Reason,
    RecordId,
)
from embedq.ports import Store
from embedq.testing.stores.stage import (
    DAY,
    MINUTE,
    NOON,
    NOTES,
    SECOND,
    Stage,
    done,
    embed_all,
    failed,
    retry,
    take,
    write,
)

MIXED = ("c", "a", "d", "B", "b", "10", "é", "9")  # no order of ids is theirs
TODAY = NOON + 30 * DAY


class OrderFacts(Stage):
    """In which order lists come."""

    async def test_missing_records_come_as_they_were_first_put(self, store: Store) -> None:
        """Neither their ids nor later edits matter, and a walk by keys meets each once."""
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
        """A job's place is its record's, whatever became of it, and also if it is a later job of the same record."""
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

    async def test_pending_jobs_come_as_they_wait_then_as_they_stand_in_line(self, store: Store) -> None:
        """First those that were told to wait, the next one due first; then the line, best lane and oldest first.

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

    async def test_pending_jobs_have_no_reason(self, store: Store) -> None:
        """A filter by reason holds for every status."""
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

    @pytest.mark.parametrize("kind", [list, tuple])
    async def test_a_filter_takes_any_sequence_of_values(
        self, store: Store, kind: Callable[[Iterable[str]], Sequence[str]]
    ) -> None:
        """A tuple means what a list means."""
        records = [
            NewRecord(id=RecordId(name), text=f"one {name}", attributes={"colour": name}) for name in ("red", "blue")
        ]
        await store.put(NOTES, records, now=NOON)

        hits = await store.search_words(NOTES, "one", Query(filter={"colour": kind(("blue", "green"))}))

        assert [hit.id for hit in hits] == ["blue"]


async def _put(store: Store, names: Sequence[str], *, text: str = "text") -> None:
    """Put these records in one call."""
    await store.put(NOTES, [NewRecord(id=RecordId(name), text=f"{text} of {name}") for name in names], now=NOON)


async def _jobs(store: Store, which: JobFilter | None = None) -> list[str]:
    return [job.record_id for job in (await store.jobs(which or JobFilter())).items]


async def _pages(store: Store, which: JobFilter) -> list[str]:
    """Read a list in pages of two."""
    found: list[str] = []
    cursor = None
    while True:
        page = await store.jobs(which, limit=2, cursor=cursor)
        found += [job.record_id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found
