"""Readiness for callers without a key: the load on the database does not grow with their number."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from embedq.operator.report import Readiness

FRESH_SECONDS = 1.0
WAIT_SECONDS = 5.0  # a database that takes longer is not ready


class CachedReadiness:
    """Caches readiness for a second; concurrent callers share one query."""

    def __init__(self, health: Callable[[], Awaitable[Readiness]]) -> None:
        """Cache what `health` returns."""
        self._health = health
        self._query: asyncio.Task[bool] | None = None
        self._fresh_until = 0.0

    async def ready(self) -> bool:
        """Say whether the database answers and the fleet can work."""
        if self._query is None or (self._query.done() and monotonic() >= self._fresh_until):
            self._query = asyncio.create_task(self._ask())
        query = self._query
        done, _ = await asyncio.wait([query], timeout=WAIT_SECONDS)
        return bool(done) and query.result()

    async def _ask(self) -> bool:
        readiness = await self._health()
        self._fresh_until = monotonic() + FRESH_SECONDS
        return readiness.ready
