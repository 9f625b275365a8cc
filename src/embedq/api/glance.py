"""Readiness for callers without a key: the load on the database does not grow with their number."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from embedq.operator.report import Readiness

FRESH_SECONDS = 1.0
WAIT_SECONDS = 5.0  # a database that takes longer is not ready


class Glance:
    """Caches readiness for a second; concurrent callers share one query."""

    def __init__(self, health: Callable[[], Awaitable[Readiness]]) -> None:
        """Cache what `health` returns."""
        self._health = health
        self._look: asyncio.Task[bool] | None = None
        self._fresh_until = 0.0

    async def ready(self) -> bool:
        """Say whether the database answers and the fleet can work."""
        if self._look is None or (self._look.done() and monotonic() >= self._fresh_until):
            self._look = asyncio.create_task(self._ask())
        look = self._look
        done, _ = await asyncio.wait([look], timeout=WAIT_SECONDS)
        return bool(done) and look.result()

    async def _ask(self) -> bool:
        readiness = await self._health()
        self._fresh_until = monotonic() + FRESH_SECONDS
        return readiness.ready
