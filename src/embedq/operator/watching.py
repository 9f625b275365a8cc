"""How the queue's state is gathered and judged."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from embedq.model import Counts, Health, Worker
from embedq.operator.report import QueueStatus, counted
from embedq.ports import Attaching, Store

MISSED_HEARTBEATS = 3  # from here on a worker is suspect

RECOVERY_OFF = "recovery is off (EMBED_JOB_RECOVERY_INTERVAL=0): stuck jobs stay until `requeue-stale`"


async def look(store: Store, *, heartbeat: timedelta, recovery: bool) -> QueueStatus:
    """Gather the whole queue's state."""
    counts, paused = await store.counts(), await store.paused()
    workers = await store.workers(heartbeat=heartbeat)
    tables = await store.attached() if isinstance(store, Attaching) else []
    troubles = [f"{one.collection}: {one.problem}" for one in tables if one.problem]
    return QueueStatus(
        counts=counts,
        paused=paused,
        recovery=recovery,
        workers=workers,
        health=judge(counts, workers, paused=paused, troubled=bool(troubles)),
        notes=notes(counts, workers, paused=paused, recovery=recovery) + troubles,
        oldest_pending=await store.oldest_pending(),
        budgets=await store.budgets(),
        spaces={space.id: str(space) for space in await store.spaces()},
    )


def judge(counts: Mapping[str, Counts], workers: Sequence[Worker], *, paused: bool, troubled: bool = False) -> Health:
    """Say how the fleet fares: as its worst worker that lives, and degraded if work waits for nobody.

    Args:
        counts: The jobs of each collection.
        workers: The fleet.
        paused: Nothing is leased, because somebody wants it so.
        troubled: A table cannot be followed.
    """
    alive = [worker for worker in workers if worker.alive]
    reported = {worker.report.health for worker in alive}
    if Health.CRITICAL in reported:
        return Health.CRITICAL
    waits_for_nobody = not alive and not paused and _waiting(counts) > 0
    if Health.DEGRADED in reported or waits_for_nobody or troubled or _suspects(workers):
        return Health.DEGRADED
    return Health.HEALTHY


def notes(counts: Mapping[str, Counts], workers: Sequence[Worker], *, paused: bool, recovery: bool) -> list[str]:
    """Say in sentences what a person should know."""
    said = []
    waiting = _waiting(counts)
    if paused:
        said.append("the queue is paused: nothing is leased until `resume`")
    if waiting and not any(worker.alive for worker in workers):
        said.append(f"{counted(waiting, 'job')} waiting, and no worker is alive: start one with `embedq work`")
    said += [f"worker {w.info.id} missed {counted(w.missed_heartbeats, 'heartbeat')}" for w in _suspects(workers)]
    said += [f"embedder {name} is halted: see the log, then `resume`" for name in _halted(workers)]
    if failed := sum(count.failed for count in counts.values()):
        said.append(f"{counted(failed, 'dead letter')}: see `embedq dead stats`")
    if not recovery:
        said.append(RECOVERY_OFF)
    return said


def _waiting(counts: Mapping[str, Counts]) -> int:
    return sum(count.pending for count in counts.values())


def _suspects(workers: Sequence[Worker]) -> list[Worker]:
    return [worker for worker in workers if worker.alive and worker.missed_heartbeats >= MISSED_HEARTBEATS]


def _halted(workers: Sequence[Worker]) -> list[str]:
    return sorted({name for worker in workers if worker.alive for name in worker.report.halted})
