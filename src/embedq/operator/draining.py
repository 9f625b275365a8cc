"""Waiting until no job can make progress."""

import asyncio
from dataclasses import dataclass, replace
from time import monotonic

from embedq.errors import Invalid
from embedq.operator.report import DrainReport
from embedq.ports.needs import DrainStore

POLL = (0.02, 0.5)  # seconds: the first and the longest pause between polls
STANDSTILL = 2.0  # seconds without a change, after which the remaining jobs are checked for being misplaced


@dataclass(slots=True)
class _Progress:
    """The time of the last change, and how long to wait before checking why there is none."""

    pending: int = -1
    since: float = 0.0
    bound: float = STANDSTILL

    def is_due(self, report: DrainReport) -> bool:
        """Say whether a check is due; the interval doubles each time, since a check reads all jobs."""
        if report.pending != self.pending:
            self.pending, self.since = report.pending, report.elapsed
        if report.waited_for != "all" or report.remaining > report.pending or report.elapsed - self.since < self.bound:
            return False
        self.since, self.bound = report.elapsed, 2 * self.bound
        return True


async def drain(store: DrainStore, seconds: float) -> DrainReport:
    """Wait until no job can make progress: when paused, until no job is leased."""
    if not seconds >= 0:
        raise Invalid(f"timeout={seconds}: it must be a number of seconds, 0 or more")
    started, pause, progress = monotonic(), POLL[0], _Progress()
    while True:
        report = await _look(store, started)
        left = seconds - report.elapsed
        if report.status == "drained" or left <= 0:
            return report
        if progress.is_due(report) and await _is_stuck(store, report):
            return replace(report, status="stuck", elapsed=monotonic() - started)
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, POLL[1])


async def _is_stuck(store: DrainStore, report: DrainReport) -> bool:
    """Say whether every remaining job is misplaced: a job in no place is never leased."""
    return len(await store.misplaced(limit=report.pending)) >= report.pending


async def _look(store: DrainStore, started: float) -> DrainReport:
    paused = await store.paused()
    counts = (await store.counts()).values()
    pending, leased = sum(count.pending for count in counts), sum(count.processing for count in counts)
    remaining = leased if paused else pending + leased
    return DrainReport(
        status="timeout" if remaining else "drained",
        waited_for="leased" if paused else "all",
        elapsed=monotonic() - started,
        remaining=remaining,
        pending=pending,
    )
