"""A few connections per event loop."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import IntEnum

from embedq.errors import StoreBusy, StoreError
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.errors import Fault, is_lost

MOST = 8  # connections per event loop; opened on demand
CLOSE_SECONDS = 5.0
LOCK_TIMEOUT = "SET lock_timeout = {}"

Connect = Callable[[], Awaitable[Connection]]


class Lane(IntEnum):
    """Who requests a connection, by how long each of its statements waits for a lock, in milliseconds.

    Writers may have to wait for an application's transaction. They never take the last connections, which readers and
    workers need, and those that met a locked record do not block those that did not.
    """

    OTHERS = 0  # without a limit: locked rows are skipped
    WRITERS = 50
    WAITING_WRITERS = 250


CAPACITY = {Lane.WRITERS: 4, Lane.WAITING_WRITERS: 2}  # of MOST


class LoopPool:
    """The connections of one event loop. The driver's own pool resets a session after every use: a round trip."""

    def __init__(self, connect: Connect, *, sessions: bool) -> None:
        """Open none yet; without its own sessions, a connection keeps no settings."""
        self._connect = connect
        self._sessions = sessions
        self._idle: list[tuple[Connection, Lane]] = []
        self._capacity = asyncio.Semaphore(MOST)
        self._lent = 0
        self._lanes = {lane: asyncio.Semaphore(most) for lane, most in CAPACITY.items()}

    @asynccontextmanager
    async def connection(self, lane: Lane = Lane.OTHERS, seconds: float | None = None) -> AsyncIterator[Connection]:
        """Lend a connection; if its call did not complete, it is closed.

        Args:
            lane: Who requests it.
            seconds: How long to wait for the lane; StoreBusy after that.
        """
        async with self._turn(lane, seconds), self._lending():
            connection, used_by = self._take(lane) or (await self._connect(), Lane.OTHERS)
            try:
                if used_by is not lane and self._sessions:
                    await connection.execute(LOCK_TIMEOUT.format(int(lane)))
                yield connection
            except Exception as error:
                if is_lost(error) or connection.is_in_transaction():
                    connection.terminate()
                raise
            except BaseException:  # its caller was cancelled: a statement may still be running
                connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    self._idle.append((connection, lane))

    @asynccontextmanager
    async def _turn(self, lane: Lane, seconds: float | None) -> AsyncIterator[None]:
        """Wait for capacity in a lane."""
        capacity = self._lanes.get(lane)
        if capacity is None:
            yield
            return
        try:
            async with asyncio.timeout(seconds):
                await capacity.acquire()
        except TimeoutError as error:
            raise StoreBusy(
                "all connections for writing wait for transactions that are open elsewhere: nothing was written; "
                "try again when they have ended"
            ) from error
        try:
            yield
        finally:
            capacity.release()

    @asynccontextmanager
    async def _lending(self) -> AsyncIterator[None]:
        """Wait for capacity, and count what is lent."""
        async with self._capacity:
            self._lent += 1
            try:
                yield
            finally:
                self._lent -= 1

    def forget(self) -> None:
        """Discard idle connections: their host is down, or has changed its role."""
        while self._idle:
            self._idle.pop()[0].terminate()

    async def close(self) -> None:
        """Close idle connections; one whose host is down is just dropped."""
        while self._idle:
            with contextlib.suppress(*Fault):
                await self._idle.pop()[0].close(timeout=CLOSE_SECONDS)

    def _take(self, lane: Lane) -> tuple[Connection, Lane] | None:
        """Find a connection last used by this lane; another lane's, which must be reset, only if there is no room."""
        self._idle = [idle for idle in self._idle if not idle[0].is_closed()]
        fitting = [place for place, (_, user) in enumerate(self._idle) if user is lane or not self._sessions]
        if fitting:
            return self._idle.pop(fitting[-1])
        return self._idle.pop() if self._idle and self._lent + len(self._idle) > MOST else None


class Pool:
    """Connections for any event loop: a worker's heartbeat has its own loop."""

    def __init__(self, connect: Connect, *, sessions: bool) -> None:
        """Open none yet."""
        self._connect = connect
        self._sessions = sessions
        self._lock = threading.Lock()
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        self._closed = False

    def here(self) -> LoopPool:
        """Return the pool of the running loop."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is not None and not self._closed:
            return pool
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed: open it again")
            for ended in [known for known in self._pools if known.is_closed()]:
                del self._pools[ended]
            return self._pools.setdefault(loop, LoopPool(self._connect, sessions=self._sessions))

    async def close(self) -> None:
        """Close this loop's connections; those of other loops are dropped by their own threads."""
        with self._lock:
            self._closed = True
            pools, self._pools = self._pools, {}
        here = asyncio.get_running_loop()
        for loop, pool in pools.items():
            if loop is here:
                await pool.close()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(pool.forget)
