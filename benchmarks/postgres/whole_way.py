"""The whole way on PostgreSQL: leased, 384 floats stored, settled, beside a bare loop that writes the same vectors.

No index for approximate search is there on either side, and both keep the vectors of earlier rounds: an emptied table
would have room in memory that a full one has to make. The bare loop leases texts, inserts the vectors into a table of
their own and deletes the jobs in one transaction; it checks nothing and keeps no history. The product's side is the
store's own loop, in one process per worker on both sides, with two turns in the air, as a worker has a batch ahead;
beside it, for information, callers that wait for each answer, as the bare loop does, and the real pool of two workers
with the fake embedder, which also looks up what can be reused, embeds, and checks what came back.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

import asyncpg

from crew import Crew
from embedq.app import load, start
from embedq.stores.postgres import PostgresStore
from figure import Act, Figure, Scale, beside, taking_turns
from postgres import bare
from postgres.ground import ask, connected, database, declare, ones, opened, put, records, server, settle_all
from postgres.hands import Drain, Hands, hands
from postgres.queue_alone import TURNS

WHAT = "bare asyncpg loop: lease 100, insert their vectors and delete them"
VACUUM = "VACUUM ANALYZE embedq.record, embedq.ready, embedq.job, embedq.lease, embedq.missing, embedq.tally"


async def measure(scale: Scale) -> list[Figure]:
    """Measure jobs per second with one and two workers, and with the real pool."""
    jobs, rounds = scale.pick(30_000, 3_000), scale.pick(5, 3)
    with server() as running, database(running) as url:

        async def pool() -> float:
            with database(running, "pool") as fresh:  # its upkeep must not find so many vectors that it indexes them
                return await _drain_by_pool(fresh, jobs)

        async with opened(url) as store, connected(url) as db:
            await db.execute(bare.TABLES)
            await declare(store, bare.DIMENSIONS)
            fill = Filler(store, db, jobs)
            async with AsyncExitStack() as stack:
                acts = [
                    _act(
                        fill,
                        await stack.enter_async_context(hands(workers, worker, url)),
                        is_bare=worker is bare.storer,
                    )
                    for worker in (storer, caller, bare.storer)
                    for workers in (1, 2)
                ]
                found = await taking_turns(rounds, *acts, pool)
    one, two, calls_one, calls_two, bare_one, bare_two, pooled = found
    name = "PostgreSQL, whole way with 384 floats"
    return [
        beside(f"{name}, 1 worker", one, bare_one, "jobs/s", what=WHAT, at_least=0.85),
        beside(f"{name}, 2 workers", two, bare_two, "jobs/s", what=WHAT, at_least=0.85),
        beside(f"{name}, 1 caller that waits for each answer", calls_one, bare_one, "jobs/s", what=WHAT),
        beside(f"{name}, 2 callers that wait for each answer", calls_two, bare_two, "jobs/s", what=WHAT),
        beside(f"{name}, the pool of 2 workers in one process", pooled, bare_two, "jobs/s", what=WHAT),
    ]


class Filler:
    """Gives each turn jobs of its own, in freshly vacuumed tables."""

    def __init__(self, store: PostgresStore, db: asyncpg.Connection, jobs: int) -> None:
        """Fill by these."""
        self.jobs = jobs
        self._store = store
        self._db = db
        self._salts = count()

    async def ours(self) -> None:
        """Put new records; a checkpoint goes before, so that none comes in between."""
        await self._db.execute("CHECKPOINT")
        await put(self._store, records(self.jobs, salt=f"{next(self._salts)}-"))
        await self._db.execute(VACUUM)

    async def bare(self) -> None:
        """Fill the bare table."""
        await self._db.execute("CHECKPOINT")
        await bare.refill(self._db, self.jobs)


def _act(fill: Filler, crew: Hands, *, is_bare: bool) -> Act:
    async def act() -> float:
        await (fill.bare() if is_bare else fill.ours())
        return await crew.drain(fill.jobs)

    return act


@asynccontextmanager
async def storer(url: str, turns: int = TURNS) -> AsyncIterator[Drain]:
    """Lease, store and complete by the product's store, with so many turns in the air."""
    async with opened(url) as store:
        wanted, vector = ask(await declare(store, bare.DIMENSIONS)), ones(bare.DIMENSIONS)

        async def drain() -> int:
            return sum(await asyncio.gather(*(settle_all(store, wanted, vector) for _ in range(turns))))

        yield drain


caller = partial(storer, turns=1)


async def _drain_by_pool(url: str, jobs: int) -> float:
    settings = load(url=url, embedder=f"fake@{bare.DIMENSIONS}", workers=2)
    async with start(settings, quiet=True) as app, opened(url) as store, connected(url) as db:
        await declare(store, bare.DIMENSIONS)
        await store.pause()
        await put(store, records(jobs))
        await db.execute(VACUUM)
        held = Crew(app)
        async with app.working(2):
            return jobs / await held.work_off(jobs)
