"""Waking whoever waits for work, on whatever event loop."""

import asyncio
import threading


class Wake:
    """Counts the moments at which work may have appeared, and wakes those who wait for one."""

    def __init__(self) -> None:
        """Start with nothing new."""
        self._lock = threading.Lock()
        self._news = 0
        self._answered = -1  # the news as of the last lease that found nothing
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()

    @property
    def news(self) -> int:
        """Count the moments at which work may have appeared."""
        return self._news

    def found_nothing(self, news: int) -> None:
        """Note that a lease came back empty, and as of which news."""
        self._answered = max(self._answered, news)

    def call(self) -> None:
        """Say that work may have appeared. Safe from any thread."""
        with self._lock:
            self._news += 1
            waiters, self._waiters = self._waiters, set()
        for loop, future in waiters:
            try:
                loop.call_soon_threadsafe(_finish, future)
            except RuntimeError:  # its loop has ended
                continue

    async def wait(self, seconds: float) -> None:
        """Return at once if there is news since the last empty lease; else at the next news, or after a while."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._news > self._answered:
                return
            self._waiters.add((loop, future))
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return
        finally:
            with self._lock:
                self._waiters.discard((loop, future))


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
