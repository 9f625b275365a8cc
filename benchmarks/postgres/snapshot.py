"""A snapshot held open elsewhere while jobs pass: what it keeps from being removed must not slow the lease down.

A report, a backup or a forgotten session does that. The worker's loop is the product's own, with small vectors. In the
first and the last turns lease and settle are two calls, so that a lease can be timed alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from embedq.model import Ask, Done, Lease
from embedq.stores.postgres import PostgresStore
from figure import Figure, Scale, beside
from postgres.ground import BATCH, ask, connected, database, declare, ones, opened, put, records, server

DIMENSIONS = 4
TIMED = 50  # turns at either end
HOLD = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM embedq.ready"


async def measure(scale: Scale) -> list[Figure]:
    """Measure the first leases and the last."""
    jobs = scale.pick(200_000, 40_000)
    with server() as running, database(running) as url:
        async with opened(url) as store, connected(url) as holder:
            wanted = ask(await declare(store, DIMENSIONS))
            await put(store, records(jobs))
            await holder.execute("VACUUM ANALYZE")
            await holder.execute(HOLD)
            loop = Loop(store, wanted, (await store.lease(wanted)).leases)
            first = await loop.timed(TIMED)
            await loop.run(jobs // BATCH - 2 * TIMED - 1)
            last = await loop.timed(TIMED)
            await holder.execute("ROLLBACK")
    name, what = f"PostgreSQL, a snapshot held open for {jobs:,} jobs", f"median of the first {TIMED} turns"
    return [
        beside(f"{name}: a lease", last.leases, first.leases, "ms", what=what, at_most=2),
        beside(f"{name}: settle and lease", last.turns, first.turns, "ms", what=what, at_most=2),
    ]


@dataclass(frozen=True, slots=True)
class Timed:
    """What turns took, in milliseconds."""

    leases: list[float]
    turns: list[float]


class Loop:
    """A worker's loop over a queue that never runs dry."""

    def __init__(self, store: PostgresStore, wanted: Ask, leases: Sequence[Lease]) -> None:
        """Begin with these in hand."""
        self._store = store
        self._wanted = wanted
        self._leases = leases
        self._vector = ones(DIMENSIONS)

    async def timed(self, turns: int) -> Timed:
        """Settle and lease in two calls, with a watch."""
        found = Timed([], [])
        for _ in range(turns):
            started = perf_counter()
            await self._store.settle(self._done())
            settled = perf_counter()
            self._leases = (await self._store.lease(self._wanted)).leases
            leased = perf_counter()
            found.leases.append(1000 * (leased - settled))
            found.turns.append(1000 * (leased - started))
        return found

    async def run(self, turns: int) -> None:
        """Settle and lease as workers do, in one call."""
        for _ in range(turns):
            self._leases = (await self._store.settle(self._done(), then=self._wanted)).next.leases

    def _done(self) -> list[Done]:
        assert len(self._leases) == BATCH, "the queue ran dry"
        return [Done(lease, self._vector) for lease in self._leases]
