"""Writers of single records on PostgreSQL: what it costs them that idle workers are woken.

Sixteen writers, each with a connection and a bell of its own as if each were a process, in two interpreters of eight so
that Python is not what limits them. Every put is a commit. The reference is the very same put with a silent bell. On
both sides somebody listens all the time, as an idle worker does.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

from embedq.policy.texts import Limits
from embedq.stores.postgres import PostgresStore, index
from embedq.stores.postgres.address import parse
from embedq.stores.postgres.bell import CHANNEL
from embedq.stores.postgres.database import Database
from embedq.telemetry import Telemetry
from figure import Act, Figure, Scale, beside, taking_turns
from postgres.ground import NAME, connected, database, declare, opened, records, server
from postgres.hands import Drain, Hands, hands

INTERPRETERS, WRITERS = 2, 8  # writers in each


async def measure(scale: Scale) -> list[Figure]:
    """Measure commits per second, with and without wake-up."""
    puts, rounds = scale.pick(500, 100), scale.pick(9, 3)
    with server() as running, database(running) as url:
        async with opened(url) as store, connected(url) as listener, AsyncExitStack() as stack:
            await declare(store, 4)
            await listener.add_listener(CHANNEL, _hear)
            acts = [
                _act(url, await stack.enter_async_context(hands(INTERPRETERS, worker, url)), puts)
                for worker in (partial(writing, puts, is_silent) for is_silent in (False, True))
            ]
            woken, silent = await taking_turns(rounds, *acts)
    name, what = "PostgreSQL, 16 writers of single records, waking workers", "the same commits without wake-up"
    return [beside(name, woken, silent, "commits/s", what=what, at_least=0.9)]


def _act(url: str, crew: Hands, puts: int) -> Act:
    async def act() -> float:
        async with connected(url) as db:
            await db.execute("CHECKPOINT")
        return await crew.drain(INTERPRETERS * WRITERS * puts)

    return act


class Silent(Database):
    """A database that tells nobody outside this process of new work."""

    def woke(self) -> None:
        """Tell this process only."""
        self.wake.call()


@asynccontextmanager
async def writing(puts: int, is_silent: bool, url: str) -> AsyncIterator[Drain]:  # noqa: FBT001 bound by `partial`
    """Write so many single records by each of the writers."""
    async with AsyncExitStack() as stack:
        stores = [PostgresStore(_database(url, is_silent), Limits(), index.WORTH) for _ in range(WRITERS)]
        for store in stores:
            stack.push_async_callback(store.close)
            await store.check()
        salts = (f"{id(stores)}-{is_silent}-{number}-" for number in count())

        async def write(store: PostgresStore) -> int:
            for record in records(puts, salt=next(salts)):
                await store.put(NAME, [record])
            return puts

        async def drain() -> int:
            return sum(await asyncio.gather(*map(write, stores)))

        yield drain


def _database(url: str, is_silent: bool) -> Database:  # noqa: FBT001 a shape, not a switch
    return (Silent if is_silent else Database)(parse(url), Telemetry())


def _hear(*_: object) -> None:
    """Let it ring."""
