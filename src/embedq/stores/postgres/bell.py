"""Notify other processes of new work, and listen for their notifications, on a separate connection and thread."""

import asyncio
import random
import threading
from collections.abc import Callable

from embedq.errors import StoreError
from embedq.stores.postgres.address import Address
from embedq.stores.postgres.connection import Connection, connect
from embedq.stores.postgres.errors import Fault

CHANNEL = "embedq"
RING = "SET LOCAL synchronous_commit = off; NOTIFY embedq"  # one transaction; what it announces is durable already
# Seconds between two notifications, which slow writers down: at first, and under sustained load.
QUIET, LONGEST_QUIET = 0.05, 0.2
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # before reconnecting
CLOSE_SECONDS = 5.0
ALIVE = 30.0  # seconds after which an idle connection is checked


class Bell:
    """Notifies others at once after a quiet time, less often while puts follow each other; listens for others."""

    def __init__(self, address: Address, notified: Callable[[], None]) -> None:
        """Start nothing yet; `notified` is called on the bell's thread, for each notification and each reconnect."""
        self._address = address
        self._notified = notified
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._rings, self._changed, self._stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._listens = False
        self._due = False
        self._closed = False

    def ring(self) -> None:
        """Notify the others, soon. Callable from any thread and cheap: one notification covers all before it."""
        if not self._due:
            self._due = True
            self._call(self._rings)

    def listen(self) -> None:
        """Listen from now on. Not possible behind a transaction pooler."""
        if not self._listens and not self._address.pooler:
            self._listens = True
            self._call(self._changed)

    def close(self) -> None:
        """Close connection and thread; a pending notification is still sent, unless the server is unreachable."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            try:
                loop.call_soon_threadsafe(self._stopped.set)
            except RuntimeError:  # its loop has ended by itself
                return
            thread.join(CLOSE_SECONDS)

    def _call(self, event: asyncio.Event) -> None:
        with self._lock:
            if self._closed:
                return
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._main, name="embedq-bell", daemon=True)
                self._thread.start()
        self._loop.call_soon_threadsafe(event.set)

    def _main(self) -> None:
        if self._loop is None:
            return
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        """Keep a connection, and reopen it when it is lost."""
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                connection = await connect(self._address, bounded=True)
            except StoreError:
                await _first(self._stopped.wait(), asyncio.sleep(pause * random.uniform(0.5, 1.0)))  # noqa: S311 no secret
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            try:
                await self._use(connection)
            except Fault:
                continue
            finally:
                connection.terminate()

    async def _use(self, connection: Connection) -> None:
        listening, quiet = False, QUIET
        connection.add_termination_listener(lambda _: self._changed.set())
        while not connection.is_closed():
            if self._listens and not listening:
                await connection.add_listener(CHANNEL, self._on_notification)
                listening = True
                self._notified()  # notifications sent before are unknown
            if self._rings.is_set():
                self._rings.clear()
                self._due = False  # before it is sent: commits from now on notify again
                await connection.execute(RING)
                await _first(self._stopped.wait(), asyncio.sleep(quiet))
                quiet = min(quiet * 2, LONGEST_QUIET) if self._rings.is_set() else QUIET
            elif self._stopped.is_set():
                return
            else:
                await self._pause(connection)

    async def _pause(self, connection: Connection) -> None:
        """Wait for something to do; check now and then that the connection is still alive."""
        self._changed.clear()
        events = (self._rings.wait(), self._changed.wait(), self._stopped.wait())
        if not await _first(*events, asyncio.sleep(ALIVE)):
            return
        async with asyncio.timeout(ALIVE):
            await connection.execute("SELECT 1")

    def _on_notification(self, connection: Connection, pid: int, channel: str, payload: str) -> None:
        del channel, payload
        if pid != connection.get_server_pid():  # our own notification was already handled in this process
            self._notified()


async def _first(*waits: object) -> bool:
    """Wait for the first of these; say whether it was the last in the list."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]  # type: ignore[call-overload]  # all are coroutines
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    return tasks[-1] in done
