"""Where jobs live: what workers, upkeep and people who run it ask of a job store."""

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
        """Lease up to `ask.limit` jobs of one of the asked spaces, best lane first; none while paused."""
        ...

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """Extend leases from now; answer with the jobs that are still ours."""
        ...

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, last: bool = False, now: datetime | None = None
    ) -> Settled:
        """Store vectors, record how attempts ended, and lease the next batch, in one transaction.

        An outcome whose token and nonce are no longer current changes nothing: the job is another worker's now. What is
        done counts before all else that is told with it: a success ends a provider's refusals.

        A job that somebody holds just now is named as busy and stays leased: renew it, and settle it again. With `last`
        nobody will: it is taken back by a rescue, and nothing is charged.
        """
        ...

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """Look up vectors that were paid for already, in one round trip."""
        ...

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """Return soon after jobs may have become ready, or were told to wait, here or elsewhere; or after `timeout`."""
        ...


class Budgeting(Protocol):
    """What a fleet may ask of a provider, and when it may not ask at all."""

    async def take(
        self, space: SpaceId, budget: Budget | None, spending: Spending = ONE_REQUEST, *, now: datetime | None = None
    ) -> timedelta:
        """Take requests and tokens of the fleet's budget. Zero: go. Else how long to wait; till then the space is held.

        No span of the budget's length sees more of either. What is larger than the whole budget goes alone.
        """
        ...

    async def hold(self, space: SpaceId, span: timedelta, *, now: datetime | None = None) -> None:
        """Keep the whole fleet from asking this space's provider for a span; the longest hold wins."""
        ...

    async def budgets(self, *, now: datetime | None = None) -> Mapping[SpaceId, Mapping[str, Any]]:
        """Say per space how many requests and tokens the last interval saw, and how many seconds a hold still lasts."""
        ...


class Keeping(Protocol):
    """What upkeep asks for, unasked by anybody."""

    async def rescue(
        self,
        *,
        dead: Sequence[WorkerId] = (),
        unrenewed_for: timedelta | None = None,
        now: datetime | None = None,
    ) -> Sequence[Rescued]:
        """Take back jobs whose lease ran out, whose worker is known to be dead, or that were not renewed for a span.

        They come lease by lease, as they were leased.
        """
        ...

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Missing]:
        """List live records without a current vector as they were first put, by an index, after a key."""
        ...

    async def reconcile(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> int:
        """Arm those of these records that still need a job; answer with how many did."""
        ...

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """Read some records beside their vectors, mend what is missing; answer how many, and after which to go on."""
        ...

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete some finished jobs and spare vectors past retention; 0 when none is left."""
        ...

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """Do some of what a drop or a new `text_from` left to do; 0 when nothing is left."""
        ...

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> int:
        """Revive dead letters with reason `quota` that are old enough."""
        ...


class Placing(Protocol):
    """Whether every open job stands in exactly one place: in the line, waiting, or under one lease."""

    async def misplaced(self, *, limit: int = 1000) -> Sequence[JobId]:
        """List open jobs that stand in none or in several, and closed ones that stand in one. It reads all jobs."""
        ...

    async def put_in_place(self, jobs: Sequence[JobId]) -> int:
        """Take those of these that are misplaced from wherever they stand, and queue the open ones; say how many."""
        ...


class Operating(Protocol):
    """What people who run it ask a job store."""

    async def counts(self) -> Mapping[str, Counts]:
        """Count per collection, by name."""
        ...

    async def jobs(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """List jobs by their records, newest first; pending ones as they wait, then as they stand in line.

        Those that wait come as they are due; the line has the best lane first, in it the oldest job. A cursor keeps
        its place while others come: whatever is there all the while is met once.
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
        """Arm dead letters (or one failed or cancelled job, if it is the tenant's) again; 0 when none is left."""
        ...

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Group dead letters by collection, reason, category and code, commonest first, with the newest moment."""
        ...

    async def oldest_pending(self, *, now: datetime | None = None) -> Mapping[str, timedelta]:
        """Say per collection, by name, how long its oldest pending job waits."""
        ...


class Pausing(Protocol):
    """Whether anybody may lease at all: it holds for every machine and survives restarts."""

    async def pause(self) -> None:
        """Stop all leasing, everywhere."""
        ...

    async def resume(self) -> None:
        """Let leasing go on, and lift every hold."""
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
        """Enter a worker."""
        ...

    async def beat(self, worker: WorkerId, report: HealthReport, *, now: datetime | None = None) -> bool:
        """Note that a worker lives, and how it fares. False: it is not registered."""
        ...

    async def leave(self, worker: WorkerId) -> None:
        """Take a worker out."""
        ...

    async def workers(self, *, heartbeat: timedelta, now: datetime | None = None) -> Sequence[Worker]:
        """List the workers that were seen within a day, as they were registered."""
        ...
