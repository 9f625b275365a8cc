"""Wake tasks that wait for work, on any event loop."""

import asyncio
import threading


class Wake:
    """Counts signals that work may have appeared, and wakes the waiters."""

    def __init__(self) -> None:
        """Start without signals."""
        self._lock = threading.Lock()
        self._signals = 0
        self._answered = -1  # the count as of the last lease that found nothing
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()

    @property
    def signals(self) -> int:
        """Return how many signals there were."""
        return self._signals

    def found_nothing(self, signals: int) -> None:
        """Note that a lease returned nothing, and as of which count."""
        self._answered = max(self._answered, signals)

    def call(self) -> None:
        """Signal that work may have appeared. Callable from any thread."""
        with self._lock:
            self._signals += 1
            waiters, self._waiters = self._waiters, set()
        for loop, future in waiters:
            try:
                loop.call_soon_threadsafe(_finish, future)
            except RuntimeError:  # its loop has ended
                continue

    async def wait(self, seconds: float) -> None:
        """Return at once if there was a signal since the last empty lease; else at the next one, or on timeout."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._signals > self._answered:
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
