"""One open database: its connections, its notifications, and this process's cache of collections."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Any, TypeVar

from embedq.errors import StoreBusy
from embedq.model import JobId, Reason
from embedq.stores.postgres.address import Address
from embedq.stores.postgres.bell import Bell
from embedq.stores.postgres.catalogue import Catalogue
from embedq.stores.postgres.connection import OWN_PATH_HERE, Connection, connect_to_installed
from embedq.stores.postgres.errors import NOT_READ_COMMITTED, Fault, is_lost, is_undone, state_of, translated
from embedq.stores.postgres.pool import Lane, Pool
from embedq.stores.wake import Wake
from embedq.telemetry import Event, Telemetry

T = TypeVar("T")
TRIES = 4
HELD_SECONDS = 10.0  # how long a writer waits for another transaction
PAUSES = (0.0, 0.05, 0.2)  # seconds before another try
POLL = timedelta(seconds=5)  # a fallback: a notification may be lost with its connection
POOLER_POLL = timedelta(seconds=0.5)  # where no notifications arrive
READ_ONLY = "25006"
ISOLATION = "read_committed"  # each statement sees what was committed before it, and so what its locks waited for


class Database:
    """What the parts of the store, corpus and queue, share."""

    def __init__(self, address: Address, telemetry: Telemetry) -> None:
        """Open no connection yet."""
        self.address = address
        self.telemetry = telemetry
        self.wake = Wake()
        self.catalogue = Catalogue()
        self._pool = Pool(lambda: connect_to_installed(address), sessions=not address.pooler)
        self._bell = Bell(address, self.wake.call)
        self._isolated = False  # sessions here have another isolation level: each transaction sets its own

    async def fetch(self, statement: str, *values: object) -> Sequence[Any]:
        """Read rows; reconnect if the connection is lost."""
        return await self.run(lambda db: db.fetch(statement, *values), repeat=True)

    async def fetchrow(self, statement: str, *values: object) -> Any:  # noqa: ANN401 a row, or None
        """Read one row; reconnect if the connection is lost."""
        return await self.run(lambda db: db.fetchrow(statement, *values), repeat=True)

    async def call(self, statement: str, *values: object) -> Any:  # noqa: ANN401 whatever it answers
        """Call what must not be done twice: a lost connection is raised to the caller."""
        return await self.run(lambda db: db.fetchval(statement, *values), repeat=False)

    async def write(self, work: Callable[[Connection], Awaitable[T]], *, repeat: bool) -> T:
        """Do work that may have to wait for an application's transaction, in one transaction.

        A write that meets a locked record releases its connection, and retries in turn with others that did.
        """
        end, lane = monotonic() + HELD_SECONDS, Lane.WRITERS
        while True:
            try:
                return await self.run(work, repeat=repeat, lane=lane, end=end)
            except StoreBusy:
                if monotonic() >= end:
                    raise
                lane = Lane.WAITING_WRITERS

    async def run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        repeat: bool,
        only_calls: bool = False,
        lane: Lane = Lane.OTHERS,
        end: float | None = None,
    ) -> T:
        """Do work on a connection. What the server rolled back is retried; what was lost only if it may be repeated.

        Args:
            work: What to do.
            repeat: It may be done twice.
            only_calls: It only calls our functions, with arguments of exactly their types: no search path matters.
            lane: Whose share of the connections it takes.
            end: By when it must have a connection.
        """
        for attempt in range(TRIES):
            seconds, isolated = None if end is None else max(0.0, end - monotonic()), self._isolated
            try:
                pool = self._pool.here()
                settings = self._with_settings
                async with (
                    pool.connection(lane, seconds) as connection,
                    settings(connection, lane, only_calls=only_calls),
                ):
                    return await work(connection)
            except Fault as error:
                self._learn_from(error)
                again = is_undone(error) or (repeat and is_lost(error)) or (_was_not_isolated(error) and not isolated)
                if not again or attempt == TRIES - 1:
                    raise translated(error, self.address.shown) from error
            await asyncio.sleep(PAUSES[attempt] * random.uniform(0.5, 1.5))  # noqa: S311 no secret
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Open a transaction of several statements."""
        try:
            async with self._pool.here().connection() as connection, connection.transaction(isolation=ISOLATION):
                if self.address.pooler:
                    await connection.execute(OWN_PATH_HERE)
                yield connection
        except Fault as error:
            self._learn_from(error)
            raise translated(error, self.address.shown) from error

    def woke(self) -> None:
        """Notify all processes that jobs became ready."""
        self.wake.call()
        self._bell.ring()

    def report_dead(self, job: JobId, reason: Reason) -> None:
        """Report a dead letter that no worker reports."""
        self.telemetry.emit(Event.JOB_FAILED, level="error", jobId=job, reason=reason)

    async def wait(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """Wait until jobs may have become ready."""
        self._bell.listen()
        most = POOLER_POLL if self.address.pooler else POLL
        longest = min(timeout, most * random.uniform(0.8, 1.2))  # noqa: S311 no secret
        await self.wake.wait(longest.total_seconds())

    async def close(self) -> None:
        """Close connections and thread."""
        await asyncio.to_thread(self._bell.close)
        await self._pool.close()

    @asynccontextmanager
    async def _with_settings(self, connection: Connection, lane: Lane, *, only_calls: bool) -> AsyncIterator[None]:
        """Open a transaction with our settings, where a pooler's sessions have others."""
        pooled = self.address.pooler
        bounded = pooled and lane is not Lane.OTHERS
        if not self._isolated and not bounded and (only_calls or not pooled):
            yield
            return
        async with connection.transaction(isolation=ISOLATION):
            if pooled:
                await connection.execute(OWN_PATH_HERE)
            if bounded:
                await connection.execute(f"SET LOCAL lock_timeout = {int(lane)}")
            yield

    def _learn_from(self, error: BaseException) -> None:
        """Learn from an error: a host that is down or has become a standby has no usable connections left."""
        if is_lost(error) or state_of(error) == READ_ONLY:
            self._pool.here().forget()
        self._isolated |= _was_not_isolated(error)


def _was_not_isolated(error: BaseException) -> bool:
    """Say whether a transaction should have set its isolation level."""
    return state_of(error) == NOT_READ_COMMITTED
