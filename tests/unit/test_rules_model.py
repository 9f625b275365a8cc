"""The model is worth something: it keeps the rules itself, and walks against it find out a store that does not."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from embedq.model import (
    Ask,
    Done,
    Failed,
    Job,
    JobId,
    JobStatus,
    Lease,
    Leased,
    NewRecord,
    Outcome,
    Priority,
    Reason,
    Receipt,
    RecordId,
    RetryPolicy,
    Settled,
    SpaceId,
    WorkerId,
)
from embedq.policy.texts import hash_of
from embedq.stores.sqlite import SqliteStore
from embedq.testing.stores.model import JobRow, RulesModel
from embedq.testing.stores.stage import FAULT, LATE, LEASE, NOON, retry, vector_of
from embedq.testing.stores.walks import Walker, shortest, walk_of

ASK = Ask(worker=WorkerId("w1"), spaces=[SpaceId("fake:fake@0/1")], limit=1, span=LEASE)
NAME = ("notes", RecordId("a"))


class Table:
    """A model with one record, and the moves of the last table of the rules."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.model = RulesModel()

    def put(self, text: str) -> JobRow:
        """Write the record; answer with its job."""
        job = self.model.put(NAME, SpaceId("fake:fake@0/1"), text, Priority.NORMAL, NOON).job
        assert job is not None
        job.id = JobId("1")
        return job

    def lease(self, job: JobRow) -> Lease:
        """Lease the job as a store would."""
        record, token = job.record, job.token + 1
        lease = Lease(
            JobId("1"),
            *NAME,
            SpaceId("fake:fake@0/1"),
            record.text,
            hash_of(record.text or ""),
            record.current,
            job.forced,
            job.attempts,
            job.crashes,
            RetryPolicy(),
            token,
            0,
            NOON + LEASE,
        )
        self.model.lease(job, lease, ASK, NOON)
        return lease

    def end(self, outcome: Outcome) -> bool:
        """Settle."""
        return self.model.settle(outcome, NOON)


@pytest.fixture
def table() -> Table:
    return Table()


def well(lease: Lease) -> Done:
    return Done(lease, vector_of(lease.text or ""))


def test_a_stale_done_does_not_complete(table: Table) -> None:
    """An edit under a lease runs again, and its old vector is not stored."""
    job = table.put("A")
    lease = table.lease(job)
    table.put("B")

    assert table.end(well(lease))

    assert (job.status, job.hash, job.record.vector) == (JobStatus.PENDING, "B", None)


def test_failed_of_an_old_text_charges_nobody(table: Table) -> None:
    """No dead letter for a text that was never tried."""
    job = table.put("A")
    lease = table.lease(job)
    table.put("B")

    table.end(Failed(lease, FAULT, Reason.PERMANENT_ERROR))

    assert (job.status, job.attempts) == (JobStatus.PENDING, 0)


def test_a_retry_settled_twice_counts_once(table: Table) -> None:
    """Retry is taken from a processing job only."""
    job = table.put("A")
    lease = table.lease(job)

    assert [table.end(retry(lease)), table.end(retry(lease))] == [True, False]

    assert job.attempts == 1


def test_a_late_done_is_taken_until_somebody_leases(table: Table) -> None:
    """A rescue changes no token; a lease does."""
    job = table.put("A")
    first = table.lease(job)
    table.model.rescue(LATE, [], None)
    second = table.lease(job)
    table.model.rescue(LATE, [], None)

    assert [table.end(well(first)), table.end(well(second))] == [False, True]


def test_a_cancel_stands(table: Table) -> None:
    """Neither a late result, nor the same text, nor the reconciler undoes it; a force does."""
    job = table.put("A")
    lease = table.lease(job)
    table.model.cancel(job, NOON)

    assert not table.end(well(lease))
    table.put("A")
    assert not table.model.reconcile(job.record, NOON)
    seen = [job.status]
    table.model.arm(job.record, NOON, priority=Priority.NORMAL, forced=True)
    seen.append(job.status)

    assert seen == [JobStatus.CANCELLED, JobStatus.PENDING]


def test_a_record_that_comes_back_is_armed(table: Table) -> None:
    """The corpus decides, never the job row's hash."""
    job = table.put("A")
    table.end(well(table.lease(job)))
    table.model.delete(job.record, NOON, purge=False)

    table.put("A")

    assert (job.status, job.record.vector) == (JobStatus.PENDING, None)


class DeafToCancel(SqliteStore):
    """A store that loses cancels."""

    async def cancel(self, job: JobId, *, now: datetime | None = None) -> Job | None:
        """Do nothing."""
        del now
        return await self.job(job)


class Eager(SqliteStore):
    """A store that embeds again what was put again."""

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Receipt]:
        """Put, and force."""
        receipts = await super().put(collection, records, now=now, connection=connection)
        await self.enqueue(collection, [record.id for record in records], force=True, now=now)
        return receipts


class Hasty(SqliteStore):
    """A store that fetches crashed jobs ahead."""

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """Forget that other work is in hand."""
        return await super().lease(replace(ask, prefetch=False), now=now)


class Credulous(SqliteStore):
    """A store that renews whatever it is shown."""

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """Say yes to all."""
        await super().renew(leases, span=span, now=now)
        return {lease.job_id for lease in leases}


class OneByOne(SqliteStore):
    """A store that settles only the first of a batch."""

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, now: datetime | None = None
    ) -> Settled:
        """Lose the rest."""
        return await super().settle(outcomes[:1], then=then, now=now)


@pytest.mark.parametrize("kind", [DeafToCancel, Eager, Hasty, Credulous, OneByOne])
async def test_a_store_that_breaks_a_rule_is_found_out(kind: type[SqliteStore], tmp_path: Path) -> None:
    """Some walk goes wrong on it, and what is left of that walk is short enough to read."""
    store = await kind.open(tmp_path / "embedq.db")
    walker = Walker(store, store)
    try:
        for seed in range(200):
            steps = walk_of(seed)
            if await walker.walk(steps) is not None:
                break
        steps = await shortest(walker, steps)

        assert await walker.walk(steps) is not None
        assert len(steps) <= 6
    finally:
        await store.close()
