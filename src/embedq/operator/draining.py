"""Waiting until no job can make progress."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic

from embedq.errors import Invalid
from embedq.model import Counts
from embedq.operator.report import DrainReport
from embedq.operator.watching import Obstacle, obstacle
from embedq.policy.health import IsDead, as_seen_here
from embedq.ports.needs import DrainStore

POLL = (0.02, 0.5)  # seconds: the first and the longest pause between polls
STANDSTILL = 2.0  # seconds without a change, after which the remaining jobs are checked for being misplaced
GRACE = 10.0  # seconds that nobody can work before the wait ends: a worker may be starting
MISPLACED = "they are in no place or in several: `embedq repair` queues them again"

Progress = Callable[[DrainReport], None]


@dataclass(slots=True)
class _Standstill:
    """The time of the last change, and how long to wait before checking why there is none."""

    pending: int = -1
    since: float = 0.0
    bound: float = STANDSTILL
    idle_since: float | None = None  # from when on nobody can work

    def is_due(self, report: DrainReport) -> bool:
        """Say whether a check is due; the interval doubles each time, since a check reads all jobs."""
        if report.pending != self.pending:
            self.pending, self.since = report.pending, report.elapsed
        if report.waited_for != "all" or report.processing or report.elapsed - self.since < self.bound:
            return False
        self.since, self.bound = report.elapsed, 2 * self.bound
        return True

    def is_idle(self, report: DrainReport, found: Obstacle | None) -> bool:
        """Say whether nobody could work for the whole grace."""
        if found is None:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = report.elapsed
        return self.idle_since is not None and report.elapsed - self.idle_since >= GRACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """Waits for the jobs of a store."""

    store: DrainStore
    heartbeat: timedelta
    is_dead: IsDead | None = None

    async def drain(self, seconds: float, progress: Progress | None = None) -> DrainReport:
        """Wait until no job can make progress: when paused, until no job is leased."""
        if not seconds >= 0:
            raise Invalid(f"timeout={seconds}: it must be a number of seconds, 0 or more")
        started, pause, standstill = monotonic(), POLL[0], _Standstill()
        while True:
            report = await self._look(started, standstill)
            left = seconds - report.elapsed
            if report.status != "timeout" or left <= 0:
                return report
            if progress:
                progress(report)
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, POLL[1])

    async def _look(self, started: float, standstill: _Standstill) -> DrainReport:
        paused, counts = await self.store.paused(), await self.store.counts()
        pending = sum(count.pending for count in counts.values())
        leased = sum(count.processing for count in counts.values())
        remaining = leased if paused else pending + leased
        report = DrainReport(
            status="timeout" if remaining else "drained",
            waited_for="leased" if paused else "all",
            elapsed=monotonic() - started,
            remaining=remaining,
            pending=pending,
            processing=leased,
        )
        return await self._judged(report, counts, standstill) if remaining else report

    async def _judged(self, report: DrainReport, counts: Mapping[str, Counts], standstill: _Standstill) -> DrainReport:
        """Say whether it is of any use to go on waiting."""
        found = await self._obstacle(counts if report.waited_for == "all" else {})
        if standstill.is_idle(report, found) and found is not None:
            return replace(report, status=found.status, reason=found.reason)
        if standstill.is_due(report) and await self._is_stuck(report):
            return replace(report, status="stuck", reason=MISPLACED)
        return report

    async def _obstacle(self, counts: Mapping[str, Counts]) -> Obstacle | None:
        """Look for workers that can embed these collections' jobs."""
        workers = as_seen_here(await self.store.workers(heartbeat=self.heartbeat), self.is_dead)
        waiting = {name for name, count in counts.items() if count.pending + count.processing}
        collections = await self.store.collections() if waiting else ()
        return obstacle(workers, {str(one.space.embedder) for one in collections if one.declaration.name in waiting})

    async def _is_stuck(self, report: DrainReport) -> bool:
        """Say whether every remaining job is misplaced: a job in no place is never leased."""
        return len(await self.store.misplaced(limit=report.pending)) >= report.pending
