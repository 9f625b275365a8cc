"""Retries outcomes whose jobs another open transaction holds, so that no paid vector is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from embedq.model import JobId, Outcome

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between retries

# Settles again; returns the jobs that are still held.
Settle = Callable[[Sequence[Outcome]], Awaitable[frozenset[JobId]]]


class Leftover:
    """The unsettled outcomes of one worker. Their leases are renewed like any others until they are settled."""

    def __init__(self, settle: Settle) -> None:
        """Settle with `settle`."""
        self._settle = settle
        self._outcomes: list[Outcome] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Retry these in the background."""
        self._outcomes += outcomes
        if outcomes and self._task is None:
            self._task = asyncio.create_task(self._retry())

    async def take(self) -> Sequence[Outcome]:
        """Stop retrying; return the outcomes that are left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    async def _retry(self) -> None:
        pause = FIRST_PAUSE
        while self._outcomes:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            sent = list(self._outcomes)
            held = await self._settle(sent)
            since = self._outcomes[len(sent) :]
            self._outcomes = [outcome for outcome in sent if outcome.lease.job_id in held] + since
        self._task = None
