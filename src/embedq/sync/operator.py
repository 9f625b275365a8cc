"""The methods of `Operator` without asyncio. Made by tools/generate_sync.py: not to be edited."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedq.model import HealthReport, Job, JobFilter, Missing, Page, Reason, Rescued, Worker, WorkerInfo
from embedq.operator import repairing
from embedq.operator.draining import Progress
from embedq.operator.operator import Operator
from embedq.operator.report import DrainReport, Finding, QueueStatus, Readiness, RepairReport, Revived
from embedq.sync.portal import Portal


class SyncOperator:
    """Monitors and controls a queue, for every process that uses the database."""

    def __init__(self, asynchronous: Operator, portal: Portal) -> None:
        """Run its methods on this portal, and wait for them."""
        self._async = asynchronous
        self._portal = portal

    def status(self) -> QueueStatus:
        """Summarise the whole queue."""
        return self._portal.run(self._async.status)

    def health(self) -> Readiness:
        """Say whether the database answers and the fleet can work; never raises for a database in trouble."""
        return self._portal.run(self._async.health)

    def pause(self) -> None:
        """Stop all leasing, everywhere. Jobs that are leased are finished."""
        self._portal.run(self._async.pause)

    def resume(self) -> None:
        """Resume leasing, and try halted embedders again."""
        self._portal.run(self._async.resume)

    def drain(self, timeout: float = 300, *, progress: Progress | None = None) -> DrainReport:
        """Wait until no job can make progress: when paused, until no job is leased.

        A job that is due for a later retry is waited for. A job in no place makes no progress: once only such jobs are
        left, the answer is `stuck`, and `repair` queues them again. If nobody can work for ten seconds, the answer is
        `no_worker` or `halted`. `progress` is called with each look at the queue.
        """
        return self._portal.run(self._async.drain, timeout, progress=progress)

    def retry_failed(self, collection: str | None = None, *, tenant: str | None = None) -> Revived:
        """Arm all dead letters again, or those of one collection or tenant."""
        return self._portal.run(self._async.retry_failed, collection, tenant=tenant)

    def requeue_stale(self, threshold_minutes: float | None = None) -> Sequence[Rescued]:
        """Take back jobs whose lease ran out, and with a threshold those that were not renewed for so long."""
        return self._portal.run(self._async.requeue_stale, threshold_minutes)

    def jobs(self, which: JobFilter | None = None, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """List jobs."""
        return self._portal.run(self._async.jobs, which, limit=limit, cursor=cursor)

    def job(self, id: str, *, tenant: str | None = None) -> Job:
        """Read one job."""
        return self._portal.run(self._async.job, id, tenant=tenant)

    def cancel(self, id: str, *, tenant: str | None = None) -> Job:
        """Cancel a job that is pending or processing; a finished one stays as it is: Conflict."""
        return self._portal.run(self._async.cancel, id, tenant=tenant)

    def dead(
        self,
        *,
        collection: str | None = None,
        reason: Reason | None = None,
        tenant: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Job]:
        """List dead letters."""
        return self._portal.run(
            self._async.dead, collection=collection, reason=reason, tenant=tenant, limit=limit, cursor=cursor
        )

    def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Group dead letters by their causes."""
        return self._portal.run(self._async.dead_stats, tenant=tenant)

    def replay(self, id: str, *, tenant: str | None = None) -> Job:
        """Arm one failed or cancelled job again."""
        return self._portal.run(self._async.replay, id, tenant=tenant)

    def replay_all(self, which: JobFilter | None = None) -> Revived:
        """Arm dead letters again, by collection and reason if given; each at most once."""
        return self._portal.run(self._async.replay_all, which)

    def repair(
        self, *, deep: bool = False, limit: int | None = None, progress: repairing.Progress | None = None
    ) -> RepairReport:
        """Queue misplaced jobs again, find live records with neither a current vector nor a job, and give them one.

        `deep` first checks every record against its vector by reading them all; `limit` bounds the records read.
        """
        return self._portal.run(self._async.repair, deep=deep, limit=limit, progress=progress)

    def missing(self, collection: str, limit: int = 10) -> Sequence[Missing]:
        """List some live records without a vector of their current text."""
        return self._portal.run(self._async.missing, collection, limit)

    def workers(self) -> Sequence[Worker]:
        """List the workers that were seen within a day."""
        return self._portal.run(self._async.workers)

    def register(
        self, *, id: str | None = None, host: str = "", pid: int = 0, version: str = "", embedder: str = ""
    ) -> WorkerInfo:
        """Register an external worker; without an id it gets one. The id of one of embedq's own workers: Conflict."""
        return self._portal.run(self._async.register, id=id, host=host, pid=pid, version=version, embedder=embedder)

    def beat(self, id: str, report: HealthReport | None = None) -> None:
        """Record a worker's heartbeat and health; for the fleet no worse than degraded, since it is not verified."""
        self._portal.run(self._async.beat, id, report)

    def doctor(self, *, repair: bool = False) -> Sequence[Finding]:
        """Check for everything that commonly goes wrong, and say what to do; `repair` queues misplaced jobs again."""
        return self._portal.run(self._async.doctor, repair=repair)
