"""Takes back jobs whose worker is gone."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from embedq.model import JobStatus, Rescued, Worker, WorkerId
from embedq.ports import Liveness
from embedq.ports.needs import RescueStore
from embedq.telemetry import Event, Telemetry


class Rescue:
    """Takes back jobs of expired leases, and at once those of processes that are dead on this host."""

    def __init__(self, store: RescueStore, liveness: Liveness, telemetry: Telemetry, *, heartbeat: timedelta) -> None:
        """Rescue on this store; `liveness` knows the dead processes of this host."""
        self._store = store
        self._liveness = liveness
        self._telemetry = telemetry
        self._heartbeat = heartbeat

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Rescue once, and report the jobs."""
        workers = await self._store.workers(heartbeat=self._heartbeat, now=now)
        dead = self._dead(workers)
        rescued = await self._store.rescue(dead=dead, now=now)
        for worker in dead:
            await self._store.leave(worker)
        for owner, jobs in _by_owner(rescued).items():
            self._report(owner, jobs, is_dead=owner in dead)

    def _dead(self, workers: Sequence[Worker]) -> Sequence[WorkerId]:
        return [worker.info.id for worker in workers if self._liveness.is_dead(worker.info.process)]

    def _report(self, owner: WorkerId | None, jobs: Sequence[Rescued], *, is_dead: bool) -> None:
        given_up = [job.job_id for job in jobs if job.status is JobStatus.FAILED]
        self._telemetry.emit(
            Event.RESCUED,
            level="error" if given_up else "warning",
            count=len(jobs),
            jobs=[job.job_id for job in jobs],
            workerId=owner,
            because="the process is dead" if is_dead else "the lease ran out",
            crashLoop=given_up,
        )


def _by_owner(rescued: Sequence[Rescued]) -> dict[WorkerId | None, list[Rescued]]:
    owners: defaultdict[WorkerId | None, list[Rescued]] = defaultdict(list)
    for job in rescued:
        owners[job.worker_id].append(job)
    return owners
