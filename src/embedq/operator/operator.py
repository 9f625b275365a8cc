"""The operator's API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from embedq.errors import Conflict, Invalid, NotFound, StoreError
from embedq.model import (
    Health,
    HealthReport,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Missing,
    Page,
    Process,
    Reason,
    Rescued,
    Worker,
    WorkerId,
    WorkerInfo,
)
from embedq.operator import checkup, repairing, watching
from embedq.operator.draining import Draining, Progress
from embedq.operator.probes import Probe
from embedq.operator.report import DrainReport, Finding, QueueStatus, Readiness, RepairReport, Revived
from embedq.policy.health import IsDead, as_seen_here, at_worst_degraded
from embedq.policy.naming import no_collection
from embedq.policy.tenants import belongs, check_tenant
from embedq.ports import OperatorStore
from embedq.telemetry import Event, Telemetry

MAX_PAGE = 1000
REVIVE_BATCH = 1000
MAX_MINUTES = 60 * 24 * 365


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """An operator's settings."""

    heartbeat: timedelta = timedelta(seconds=60)
    recovery: bool = True  # False: no automatic rescue
    is_dead: IsDead | None = None  # what this host knows of its own processes


class Operator:
    """Monitors and controls a queue, for every process that uses the database."""

    def __init__(
        self, store: OperatorStore, *, options: OperatorOptions, telemetry: Telemetry, probes: Sequence[Probe] = ()
    ) -> None:
        """Operate this store; `probes` are further checks for the doctor."""
        self._store = store
        self._options = options
        self._telemetry = telemetry
        self._probes = tuple(probes)

    async def status(self) -> QueueStatus:
        """Summarise the whole queue."""
        options = self._options
        return await watching.look(
            self._store, heartbeat=options.heartbeat, recovery=options.recovery, is_dead=options.is_dead
        )

    async def health(self) -> Readiness:
        """Say whether the database answers and the fleet can work; never raises for a database in trouble."""
        try:
            await self._store.check()
            status = await self.status()
        except StoreError as trouble:
            return Readiness(ready=False, database=str(trouble), status=None)
        return Readiness(ready=status.health is not Health.CRITICAL, database="ok", status=status)

    async def pause(self) -> None:
        """Stop all leasing, everywhere. Jobs that are leased are finished."""
        await self._store.pause()
        self._telemetry.emit(Event.PAUSED)

    async def resume(self) -> None:
        """Resume leasing, and try halted embedders again."""
        await self._store.resume()
        self._telemetry.emit(Event.RESUMED)

    async def drain(self, timeout: float = 300, *, progress: Progress | None = None) -> DrainReport:  # noqa: ASYNC109 a timeout is an answer, not an error
        """Wait until no job can make progress: when paused, until no job is leased.

        A job that is due for a later retry is waited for. A job in no place makes no progress: once only such jobs are
        left, the answer is `stuck`, and `repair` queues them again. If nobody can work for ten seconds, the answer is
        `no_worker` or `halted`. `progress` is called with each look at the queue.
        """
        options = self._options
        waits = Draining(store=self._store, heartbeat=options.heartbeat, is_dead=options.is_dead)
        return await waits.drain(timeout, progress)

    async def retry_failed(self, collection: str | None = None, *, tenant: str | None = None) -> Revived:
        """Arm all dead letters again, or those of one collection or tenant."""
        return await self.replay_all(JobFilter(status=JobStatus.FAILED, collection=collection, tenant=tenant))

    async def requeue_stale(self, threshold_minutes: float | None = None) -> Sequence[Rescued]:
        """Take back jobs whose lease ran out, and with a threshold those that were not renewed for so long."""
        if threshold_minutes is not None and not 0 <= threshold_minutes <= MAX_MINUTES:
            raise Invalid(f"threshold_minutes={threshold_minutes}: it must be 0 to {MAX_MINUTES}")
        span = None if threshold_minutes is None else timedelta(minutes=threshold_minutes)
        rescued = await self._store.rescue(unrenewed_for=span)
        if rescued:
            self._telemetry.emit(
                Event.RESCUED, level="warning", by="hand", count=len(rescued), jobs=[job.job_id for job in rescued]
            )
        return rescued

    async def jobs(self, which: JobFilter | None = None, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """List jobs."""
        if not 1 <= limit <= MAX_PAGE:
            raise Invalid(f"limit={limit}: it must be 1 to {MAX_PAGE}; go on with the cursor")
        which = which or JobFilter()
        check_tenant(which.tenant)
        await self._known(which.collection)
        return await self._store.jobs(which, limit=limit, cursor=cursor)

    async def job(self, id: str, *, tenant: str | None = None) -> Job:  # noqa: A002 the API's own name
        """Read one job."""
        check_tenant(tenant)
        job = await self._store.job(JobId(id))
        if job is None or not belongs(job.tenant, tenant):
            raise _no_job(id)
        return job

    async def cancel(self, id: str, *, tenant: str | None = None) -> Job:  # noqa: A002 the API's own name
        """Cancel a job that is pending or processing; a finished one stays as it is: Conflict."""
        before = await self.job(id, tenant=tenant)
        if before.status not in {JobStatus.PENDING, JobStatus.RETRYING, JobStatus.PROCESSING}:
            raise Conflict(f"job {id} is {before.status}: only a pending or processing job can be cancelled")
        job = await self._store.cancel(JobId(id), tenant=tenant)
        if job is None:
            raise _no_job(id)
        self._telemetry.emit(Event.CANCELLED, job=id, collection=job.collection, status=job.status.value)
        return job

    async def dead(
        self,
        *,
        collection: str | None = None,
        reason: Reason | None = None,
        tenant: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Job]:
        """List dead letters."""
        which = JobFilter(status=JobStatus.FAILED, collection=collection, reason=reason, tenant=tenant)
        return await self.jobs(which, limit=limit, cursor=cursor)

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Group dead letters by their causes."""
        check_tenant(tenant)
        return await self._store.dead_stats(tenant=tenant)

    async def replay(self, id: str, *, tenant: str | None = None) -> Job:  # noqa: A002 the API's own name
        """Arm one failed or cancelled job again."""
        check_tenant(tenant)
        if not await self._store.revive(JobFilter(tenant=tenant), job=JobId(id), limit=1):
            job = await self.job(id, tenant=tenant)
            raise Conflict(f"job {id} is {job.status}: only a failed or cancelled job of a live record can be replayed")
        self._telemetry.emit(Event.REVIVED, job=id, jobs=1)
        return await self.job(id)

    async def replay_all(self, which: JobFilter | None = None) -> Revived:
        """Arm dead letters again, by collection and reason if given; each at most once."""
        which = which or JobFilter()
        check_tenant(which.tenant)
        await self._known(which.collection)
        counts = await self._store.counts()
        names = [which.collection] if which.collection else [name for name, count in counts.items() if count.failed]
        revived = {
            name: await self._revive(replace(which, status=JobStatus.FAILED, collection=name), counts[name].failed)
            for name in names
            if name in counts
        }
        found = Revived(by_collection={name: jobs for name, jobs in revived.items() if jobs})
        self._telemetry.emit(Event.REVIVED, jobs=found.total, by_collection=dict(found.by_collection))
        return found

    async def repair(
        self,
        *,
        deep: bool = False,
        limit: int | None = None,
        progress: repairing.Progress | None = None,
    ) -> RepairReport:
        """Queue misplaced jobs again, find live records with neither a current vector nor a job, and give them one.

        `deep` first checks every record against its vector by reading them all; `limit` bounds the records read.
        """
        if limit is not None and limit < 1:
            raise Invalid(f"limit={limit}: it must be 1 or more")
        report = await repairing.repair(self._store, deep=deep, limit=limit, progress=progress)
        found = {"armed": report.armed, "placed": report.placed}
        self._telemetry.emit(
            Event.RECONCILED, level="warning" if any(found.values()) else "info", by="hand", **found, deep=deep
        )
        return report

    async def missing(self, collection: str, limit: int = 10) -> Sequence[Missing]:
        """List some live records without a vector of their current text."""
        if not 1 <= limit <= MAX_PAGE:
            raise Invalid(f"limit={limit}: it must be 1 to {MAX_PAGE}")
        await self._known(collection)
        return await self._store.missing(collection, limit=limit)

    async def workers(self) -> Sequence[Worker]:
        """List the workers that were seen within a day."""
        workers = await self._store.workers(heartbeat=self._options.heartbeat)
        return as_seen_here(workers, self._options.is_dead)

    async def register(
        self,
        *,
        id: str | None = None,  # noqa: A002 the API's own name
        host: str = "",
        pid: int = 0,
        version: str = "",
        embedder: str = "",
    ) -> WorkerInfo:
        """Register an external worker; without an id it gets one. The id of one of embedq's own workers: Conflict."""
        if any(worker.info.id == id and worker.info.process.boot for worker in await self.workers()):
            raise Conflict(f"worker {id!r} is one of embedq's own, which registers itself: choose another id")
        process = Process(host=host, boot="", pid=pid, born="")
        info = WorkerInfo(
            id=WorkerId(id or f"worker-{uuid4().hex}"), process=process, version=version, embedder=embedder
        )
        await self._store.register(info)
        return info

    async def beat(self, id: str, report: HealthReport | None = None) -> None:  # noqa: A002 the API's own name
        """Record a worker's heartbeat and health; for the fleet no worse than degraded, since it is not verified."""
        if not await self._store.beat(WorkerId(id), at_worst_degraded(report or HealthReport())):
            raise NotFound(f"no worker {id!r}: register it first")

    async def doctor(self, *, repair: bool = False) -> Sequence[Finding]:
        """Check for everything that commonly goes wrong, and say what to do; `repair` queues misplaced jobs again."""
        return await checkup.examine(self._store, self.status, self._probes, repair=repair)

    async def _revive(self, which: JobFilter, at_most: int) -> int:
        """Revive at most `at_most`: a text that fails again at once must not be revived forever."""
        revived = 0
        while revived < at_most:
            some = await self._store.revive(which, limit=min(REVIVE_BATCH, at_most - revived))
            if not some:
                break
            revived += some
        return revived

    async def _known(self, collection: str | None) -> None:
        if collection is None:
            return
        names = [found.declaration.name for found in await self._store.collections()]
        if collection not in names:
            raise no_collection(collection, names)


def _no_job(id_: str) -> NotFound:
    return NotFound(f"no job {id_!r}")
