"""The job store: what workers, upkeep and operators need from it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from embedq.embedding import ONE_REQUEST, Spending
from embedq.model import (
    Ask,
    Budget,
    ContentHash,
    Counts,
    HealthReport,
    Job,
    JobFilter,
    JobId,
    Lease,
    Leased,
    Missing,
    Outcome,
    Page,
    RecordId,
    Rescued,
    Settled,
    SpaceId,
    Vector,
    Worker,
    WorkerId,
    WorkerInfo,
)


class Leasing(Protocol):
    """The worker's side of a job store. Everything is in batches."""

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """Lease up to `ask.limit` jobs of one of the requested spaces, highest priority first; none while paused."""
        ...

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """Extend leases from now; return the jobs that are still ours."""
        ...

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, last: bool = False, now: datetime | None = None
    ) -> Settled:
        """Store vectors, record how attempts ended, and lease the next batch, in one transaction.

        An outcome whose token and nonce are no longer current changes nothing: the job is another worker's now. Within
        one call `Done` counts first: a success ends a provider's refusals.

        A job that another transaction holds is returned as busy and stays leased: renew it, and settle it again. With
        `last` the caller will not: a rescue takes it back, and nothing is charged.
        """
        ...

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """Look up vectors that were already paid for, in one round trip."""
        ...

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """Return soon after jobs may have become ready or were scheduled, in any process; or after `timeout`."""
        ...


class Budgeting(Protocol):
    """The fleet's rate limit per provider, and holds."""

    async def take(
        self, space: SpaceId, budget: Budget | None, spending: Spending = ONE_REQUEST, *, now: datetime | None = None
    ) -> timedelta:
        """Take requests and tokens from the fleet's budget. Zero: go. Else the wait, during which the space is held.

        No span of the budget's length has more of either. A request larger than the whole budget goes alone.
        """
        ...

    async def hold(self, space: SpaceId, span: timedelta, *, now: datetime | None = None) -> None:
        """Keep the whole fleet from calling this space's provider for a span; the longest hold wins."""
        ...

    async def budgets(self, *, now: datetime | None = None) -> Mapping[SpaceId, Mapping[str, Any]]:
        """Return per space the requests and tokens of the last interval, and the remaining seconds of a hold."""
        ...


class Keeping(Protocol):
    """What upkeep needs."""

    async def rescue(
        self,
        *,
        dead: Sequence[WorkerId] = (),
        unrenewed_for: timedelta | None = None,
        now: datetime | None = None,
    ) -> Sequence[Rescued]:
        """Take back jobs whose lease expired, whose worker is known to be dead, or that were not renewed for a span.

        They are grouped by lease, in the order of leasing.
        """
        ...

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Missing]:
        """List live records without a current vector after a key, in the order they were first put, by an index."""
        ...

    async def reconcile(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> int:
        """Arm those of these records that still need a job; return how many."""
        ...

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """Check some records against their vectors and repair the index; return how many, and the next key."""
        ...

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete some finished jobs and spare vectors past retention; 0 when none is left."""
        ...

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """Do some of the work that a drop or a new `text_from` left; 0 when nothing is left."""
        ...

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> int:
        """Revive dead letters with reason `quota` that are old enough."""
        ...


class Placing(Protocol):
    """Checks that every open job is in exactly one place: ready, waiting, or in one lease."""

    async def misplaced(self, *, limit: int = 1000) -> Sequence[JobId]:
        """List open jobs that are in none or in several, and closed ones that are in one. It reads all jobs."""
        ...

    async def put_in_place(self, jobs: Sequence[JobId]) -> int:
        """Remove the misplaced ones of these from all places, and queue the open ones; return how many."""
        ...


class Operating(Protocol):
    """The operator's side of a job store."""

    async def counts(self) -> Mapping[str, Counts]:
        """Count per collection, by name."""
        ...

    async def jobs(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """List jobs by their records, newest first; pending ones: first those that wait, then those that are ready.

        Those that wait are in the order they are due; ready ones by priority, then the oldest first. A cursor is
        stable: a job that is there all the time is listed once.
        """
        ...

    async def job(self, job: JobId) -> Job | None:
        """Read one job."""
        ...

    async def cancel(self, job: JobId, *, tenant: str | None = None, now: datetime | None = None) -> Job | None:
        """Cancel a pending or processing job; others stay as they are. None: no such job, or not the `tenant`'s."""
        ...

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> int:
        """Re-arm dead letters, or one failed or cancelled job if it is the tenant's; 0 when none is left."""
        ...

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Group dead letters by collection, reason, category and code, most frequent first, with the latest time."""
        ...

    async def oldest_pending(self, *, now: datetime | None = None) -> Mapping[str, timedelta]:
        """Return per collection, by name, how long its oldest pending job has waited."""
        ...


class Pausing(Protocol):
    """Stops and resumes all leasing, on every machine and across restarts."""

    async def pause(self) -> None:
        """Stop all leasing, everywhere."""
        ...

    async def resume(self) -> None:
        """Resume leasing, and lift every hold."""
        ...

    async def paused(self) -> bool:
        """Say whether leasing is stopped."""
        ...

    async def resumes(self) -> int:
        """Count how often resume was called: a worker that sees it grow tries its halted embedders again."""
        ...


class Fleet(Protocol):
    """The registry of workers."""

    async def register(self, worker: WorkerInfo, *, now: datetime | None = None) -> None:
        """Register a worker."""
        ...

    async def beat(self, worker: WorkerId, report: HealthReport, *, now: datetime | None = None) -> bool:
        """Record a worker's heartbeat and health. False: it is not registered."""
        ...

    async def leave(self, worker: WorkerId) -> None:
        """Unregister a worker."""
        ...

    async def workers(self, *, heartbeat: timedelta, now: datetime | None = None) -> Sequence[Worker]:
        """List the workers that were seen within a day, in the order of registration."""
        ...
