"""A few connections per event loop."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from embedq.errors import StoreError
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.faults import Fault, is_lost

MOST = 8  # connections per event loop; opened when they are needed
CLOSE_SECONDS = 5.0

Connect = Callable[[], Awaitable[Connection]]


class LoopPool:
    """The connections of one event loop. The driver's own pool would reset a session after every use: a round trip."""

    def __init__(self, connect: Connect) -> None:
        """Open none yet."""
        self._connect = connect
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(MOST)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection; one that was used by a call that did not come to its end is thrown away."""
        async with self._room:
            connection = self._take() or await self._connect()
            try:
                yield connection
            except Exception as error:
                if is_lost(error) or connection.is_in_transaction():
                    connection.terminate()
                raise
            except BaseException:  # its caller was cancelled: a statement may be under way
                connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    self._idle.append(connection)

    def forget(self) -> None:
        """Throw idle connections away: their host is gone, or is not the one it was."""
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        """Close idle connections; one whose host is gone is just dropped."""
        while self._idle:
            with contextlib.suppress(*Fault):
                await self._idle.pop().close(timeout=CLOSE_SECONDS)

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None


class Pool:
    """Connections for whichever event loop asks: a worker's heartbeat has a loop of its own."""

    def __init__(self, connect: Connect) -> None:
        """Open none yet."""
        self._connect = connect
        self._lock = threading.Lock()
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        self._closed = False

    def here(self) -> LoopPool:
        """Find the pool of the running loop."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is not None and not self._closed:
            return pool
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            for ended in [known for known in self._pools if known.is_closed()]:
                del self._pools[ended]
            return self._pools.setdefault(loop, LoopPool(self._connect))

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
