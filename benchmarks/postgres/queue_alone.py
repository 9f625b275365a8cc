"""The queue alone on PostgreSQL: lease and complete, no vectors written, beside a bare asyncpg loop.

What is timed: the product's store API (`settle(done, then=next ask)`) over jobs of records whose vectors are current
and that were armed by force, so that nothing but the queue is written. Each lease reads current texts and hashes, is
fenced by its token, and the job rows stay as history. Both sides run in one process per worker, connected and warm, and
start from freshly vacuumed tables; there are so many jobs that planning anew after that is no part of the figure.

A worker of ours has a batch ahead: while one is being settled, the next is worked on. So it is measured with two turns
in the air, as it runs; for information also as a caller that waits for each answer, which the bare loop is.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import asyncpg

from embedq.model import RecordId
from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import PostgresServer
from figure import Act, Figure, Scale, beside, taking_turns
from postgres import bare
from postgres.ground import (
    BATCH,
    NAME,
    STEP,
    ask,
    connected,
    database,
    declare,
    ones,
    opened,
    put,
    records,
    server,
    settle_all,
)
from postgres.hands import Drain, Hands, hands

DIMENSIONS = 4  # the vectors are only there: small, since the queue is what is measured
TURNS = 2  # of a worker: a batch in hand and one ahead
WHAT = "bare asyncpg loop: lease 100 by UPDATE … SKIP LOCKED, finish by DELETE"
VACUUM = "VACUUM ANALYZE embedq.ready, embedq.job, embedq.lease, embedq.tally"


async def measure(scale: Scale) -> list[Figure]:
    """Measure jobs per second with one and two workers, on the newest PostgreSQL and, shorter, on the oldest."""
    jobs, rounds = scale.pick(60_000, 5_000), scale.pick(7, 3)
    figures = []
    for version, times in ((18, rounds), (16, scale.pick(5, 3))):
        with server(version) as running:
            figures += await _measure(running, jobs, times)
    return figures


async def _measure(running: PostgresServer, jobs: int, rounds: int) -> list[Figure]:
    with database(running) as url:
        async with AsyncExitStack() as stack:
            queue = await stack.enter_async_context(filled(url, jobs))
            crews = {
                (side, count): await stack.enter_async_context(hands(count, worker, url))
                for side, worker, counts in CREWS
                for count in counts
            }
            acts = [_act(queue, side, crew, jobs) for (side, _), crew in crews.items()]
            found = dict(zip(crews, await taking_turns(rounds, *acts), strict=True))
    name = f"PostgreSQL {running.version}, queue alone: one caller that waits for each answer"
    alone = beside(name, found["caller", 1], found["bare", 1], "jobs/s", what=WHAT)
    return [*(_figure(running.version, workers, found) for workers in (1, 2)), alone]


def _figure(version: int, workers: int, found: Mapping[tuple[str, int], list[float]]) -> Figure:
    name = f"PostgreSQL {version}, queue alone: lease and complete, {workers} worker{'s' if workers > 1 else ''}"
    return beside(name, found["ours", workers], found["bare", workers], "jobs/s", what=WHAT, at_least=1.0)


class Queue:
    """The database with both queues in it, filled before each turn."""

    def __init__(self, store: PostgresStore, db: asyncpg.Connection, jobs: int) -> None:
        """Fill by these."""
        self._store = store
        self._db = db
        self._jobs = jobs

    async def fill(self, side: str) -> None:
        """Make this side's jobs ready; a checkpoint goes before, so that none comes in between."""
        await self._db.execute("CHECKPOINT")
        if side == "bare":
            await bare.refill(self._db, self._jobs)
            return
        for first in range(0, self._jobs, STEP):
            ids = [RecordId(str(number)) for number in range(first, first + STEP)]
            await self._store.enqueue(NAME, ids, force=True)
        await self._db.execute(VACUUM)


def _act(queue: Queue, side: str, crew: Hands, jobs: int) -> Act:
    async def act() -> float:
        await queue.fill(side)
        return await crew.drain(jobs)

    return act


@asynccontextmanager
async def filled(url: str, jobs: int) -> AsyncIterator[Queue]:
    """Write records and give each a vector."""
    async with opened(url) as store, connected(url) as db:
        await db.execute(bare.TABLES)
        collection = await declare(store, DIMENSIONS)
        await put(store, records(jobs))
        await settle_all(store, ask(collection), ones(DIMENSIONS))
        yield Queue(store, db, jobs)


@asynccontextmanager
async def drainer(url: str, batch: int = BATCH, turns: int = TURNS) -> AsyncIterator[Drain]:
    """Lease and complete by the product's store, with so many turns in the air."""
    async with opened(url) as store:
        wanted = ask(await declare(store, DIMENSIONS), batch)

        async def drain() -> int:
            return sum(await asyncio.gather(*(settle_all(store, wanted, None) for _ in range(turns))))

        yield drain


caller = partial(drainer, turns=1)
CREWS = (("bare", bare.drainer, (1, 2)), ("ours", drainer, (1, 2)), ("caller", caller, (1,)))
