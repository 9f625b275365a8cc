"""Of the idle workers of a process one looks for work: a fetch per process, not per worker."""

import asyncio
from datetime import timedelta

import pytest
from tests.worker.conftest import PATIENCE, Gate, House

from embedq.model import Ask, Leased

LONG = timedelta(minutes=1)
WORKERS = 4


class Watched:
    """Counts the leases that are asked for and those who wait for work, whom only a ring of ours wakes."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch this house's store."""
        self._lease = house.store.lease
        self._bell, self._waits = asyncio.Event(), asyncio.Event()
        self.leases = self.waiting = self.most = 0
        monkeypatch.setattr(house.store, "lease", self.lease)
        monkeypatch.setattr(house.store, "wait_for_work", self.wait_for_work)

    async def lease(self, ask: Ask) -> Leased:
        """Lease."""
        self.leases += 1
        return await self._lease(ask)

    async def wait_for_work(self, _: timedelta) -> None:
        """Wait."""
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        self._waits.set()
        try:
            await self._bell.wait()
        finally:
            self.waiting -= 1

    async def idle(self) -> None:
        """Wait until somebody waits for work."""
        async with asyncio.timeout(PATIENCE):
            await self._waits.wait()

    async def ring(self) -> None:
        """Wake whoever waits, and wait until somebody waits again."""
        self._waits.clear()
        bell, self._bell = self._bell, asyncio.Event()
        bell.set()
        await self.idle()


async def test_one_of_four_idle_workers_waits_for_all(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that comes costs two fetches: the one that finds it, and the next one's, which finds nothing more."""
    watched = Watched(house, monkeypatch)
    await house.declare()
    await house.pool(workers=WORKERS, poll_interval=LONG).start()
    await watched.idle()
    await house.put(["a"])
    before = watched.leases

    await watched.ring()

    await house.settled(completed=1)
    assert watched.leases - before == 2
    assert watched.most == 1


async def test_a_ring_for_nothing_costs_one_fetch(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many workers are idle, and however often it rings, never two of them look at once."""
    watched = Watched(house, monkeypatch)
    await house.declare()
    await house.pool(workers=WORKERS, poll_interval=LONG).start()
    await watched.idle()
    before = watched.leases

    for _ in range(20):
        await watched.ring()

    assert watched.leases - before == 20
    assert watched.most == 1


async def test_the_worker_that_finds_work_lets_the_next_one_look(house: House, gate: Gate) -> None:
    """All four are at work, although none of their calls has come back."""
    house.provider.plan = gate
    await house.declare()
    await house.put([f"text {number}" for number in range(2 * WORKERS)])

    await house.pool(workers=WORKERS, batch_size=1, poll_interval=LONG).start()

    await house.settled(processing=2 * WORKERS)
    gate.opened.set()
    await house.settled(completed=2 * WORKERS)


async def test_workers_that_wait_for_their_turn_to_look_stop_at_once(house: House) -> None:
    """Nobody asks for work any more once the pool stops."""
    await house.declare()
    pool = house.pool(workers=WORKERS, poll_interval=LONG)
    await pool.start()

    async with asyncio.timeout(PATIENCE):
        await pool.stop(LONG)

    assert not pool.is_running
