"""Noticing what other processes commit, without asking for anything but a number."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from embedq.stores.sqlite.connection import connect

PERIOD = 0.07  # seconds: a fifth of a percent of a core, and a wake-up well under a tenth of a second


class Watcher:
    """Watches the file's version and tells the others when it moves."""

    def __init__(self, path: Path, changed: Callable[[], None], trouble: Callable[[Exception], None]) -> None:
        """Start watching; `changed` and `trouble` are called on the watcher's thread."""
        self._db = connect(path, read_only=True)
        self._changed = changed
        self._trouble = trouble
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="embedq-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()
        self._db.close()

    def _watch(self) -> None:
        seen = -1
        while not self._stop.wait(PERIOD):
            try:
                version = self._version()
                if version != seen:
                    seen = version
                    self._changed()
            except Exception as error:  # noqa: BLE001 a service loop: the next look may go better
                self._trouble(error)

    def _version(self) -> int:
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        return int(version)


class Wake:
    """Wakes whoever waits for work, on whatever event loop."""

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
