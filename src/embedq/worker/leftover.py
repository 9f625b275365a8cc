"""Outcomes whose jobs somebody holds just now: an open transaction elsewhere is no reason to lose what was paid for."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from embedq.model import JobId, Outcome

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between two tries

# Tells the store once more; answers with the jobs that are still held.
Settle = Callable[[Sequence[Outcome]], Awaitable[frozenset[JobId]]]


class Leftover:
    """What one worker still has to tell. Its leases are renewed like any others until the store has taken it."""

    def __init__(self, settle: Settle) -> None:
        """Tell the store by `settle`."""
        self._settle = settle
        self._outcomes: list[Outcome] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Come back for these, beside the other work."""
        self._outcomes += outcomes
        if outcomes and self._task is None:
            self._task = asyncio.create_task(self._come_back())

    async def take(self) -> Sequence[Outcome]:
        """Stop coming back; answer with what is left to tell."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    async def _come_back(self) -> None:
        pause = FIRST_PAUSE
        while self._outcomes:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            told = list(self._outcomes)
            held = await self._settle(told)
            since = self._outcomes[len(told) :]
            self._outcomes = [outcome for outcome in told if outcome.lease.job_id in held] + since
        self._task = None
