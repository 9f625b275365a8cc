"""Collects and judges the queue's state."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from embedq.model import Counts, Health, Worker
from embedq.operator.report import QueueStatus, counted
from embedq.policy.health import IsDead, as_seen_here, lost
from embedq.policy.jobs import MISSED_HEARTBEATS
from embedq.ports import Attaching
from embedq.ports.needs import StatusStore

RECOVERY_OFF = "recovery is off (EMBED_JOB_RECOVERY_INTERVAL=0): stuck jobs stay until `requeue-stale`"
START_ONE = "start one with `embedq work` or `embedq up`"


async def look(
    store: StatusStore, *, heartbeat: timedelta, recovery: bool, is_dead: IsDead | None = None
) -> QueueStatus:
    """Collect the whole queue's state."""
    counts, paused = await store.counts(), await store.paused()
    workers = as_seen_here(await store.workers(heartbeat=heartbeat), is_dead)
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
    """Return the fleet's health: that of its worst live worker, and degraded if jobs wait without a worker.

    Args:
        counts: The jobs of each collection.
        workers: The fleet.
        paused: Nothing is leased, on purpose.
        troubled: A table cannot be followed.
    """
    alive = [worker for worker in workers if worker.alive]
    reported = {worker.report.health for worker in alive}
    if Health.CRITICAL in reported:
        return Health.CRITICAL
    waits_for_nobody = not alive and not paused and waiting(counts) > 0
    if Health.DEGRADED in reported or waits_for_nobody or troubled or lost(workers):
        return Health.DEGRADED
    return Health.HEALTHY


def notes(counts: Mapping[str, Counts], workers: Sequence[Worker], *, paused: bool, recovery: bool) -> list[str]:
    """Write warnings in sentences."""
    said = []
    waits = waiting(counts)
    if paused:
        said.append("the queue is paused: nothing is leased until `resume`")
    if waits and not any(worker.alive for worker in workers):
        said.append(f"{counted(waits, 'job')} waiting, and no worker is alive: {START_ONE}")
    said += losses(workers) + troubles(workers)
    if failed := sum(count.failed for count in counts.values()):
        said.append(f"{counted(failed, 'dead letter')}: see `embedq dead stats`")
    if not recovery:
        said.append(RECOVERY_OFF)
    return said


def waiting(counts: Mapping[str, Counts]) -> int:
    """Count the jobs that need a worker, including those of dead workers."""
    return sum(count.pending + count.processing for count in counts.values())


def losses(workers: Sequence[Worker]) -> list[str]:
    """Describe the workers that disappeared."""
    return [f"worker {worker.info.id} {_why_lost(worker)}" for worker in lost(workers)]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why nobody can work."""

    status: Literal["no_worker", "halted"]
    reason: str


def obstacle(workers: Sequence[Worker], needed: Collection[str]) -> Obstacle | None:
    """Say why no worker can embed anything with the embedders that jobs need; None: one can."""
    alive = [worker for worker in workers if worker.alive]
    if not alive:
        return Obstacle("no_worker", f"no worker runs: {START_ONE}")
    if needed and all(set(needed) <= set(worker.report.halted) for worker in alive):
        return Obstacle("halted", "; ".join(troubles(alive)))
    return None


WAY_OUT = "restart with the right setting, or `embedq resume` if it was the provider's fault"


def troubles(workers: Sequence[Worker]) -> list[str]:
    """List the errors of embedders that are halted, resting or failing, each once for all workers."""
    alive = [worker for worker in workers if worker.alive]
    halted = {name for worker in alive for name in worker.report.halted}
    reported = [(name in w.report.halted, name, said) for w in alive for name, said in w.report.troubles.items()]
    words = {name: said for _, name, said in sorted(reported)}  # the message of a halt wins
    return [
        f"embedder {name} is halted: {words.get(name, 'see the log')} ({WAY_OUT})"
        if name in halted
        else f"embedder {name} fails: {words[name]} (it is tried again by itself)"
        for name in sorted(halted | words.keys())
    ]


def _why_lost(worker: Worker) -> str:
    if worker.missed_heartbeats >= MISSED_HEARTBEATS:
        return f"missed {counted(worker.missed_heartbeats, 'heartbeat')}"
    return f"is dead: its process {worker.info.process.pid} is gone from this host"
