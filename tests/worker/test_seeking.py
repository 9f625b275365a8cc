"""Of the idle workers of a process one looks for work: a fetch per process, not per worker."""

import asyncio
from datetime import timedelta

import pytest
from tests.worker.conftest import PATIENCE, Gate, House

from embedq.model import Ask, Leased

LONG = timedelta(minutes=1)
WORKERS = 4


class Watched:
    """Counts the leases that are asked for, and those who wait for work."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch this house's store."""
        self._lease, self._wait = house.store.lease, house.store.wait_for_work
        self._changed = asyncio.Event()
        self.leases = self.waiting = self.most = 0
        monkeypatch.setattr(house.store, "lease", self.lease)
        monkeypatch.setattr(house.store, "wait_for_work", self.wait_for_work)

    async def lease(self, ask: Ask) -> Leased:
        """Lease."""
        self.leases += 1
        return await self._lease(ask)

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """Wait."""
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        self._changed.set()
        try:
            await self._wait(timeout)
        finally:
            self.waiting -= 1

    async def until_idle(self) -> None:
        """Wait until somebody waits for work after this moment."""
        self._changed.clear()
        async with asyncio.timeout(PATIENCE):
            await self._changed.wait()


async def test_one_of_four_idle_workers_waits_for_all(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that comes costs two fetches: the one that finds it, and the next one's, which finds nothing more."""
    watched = Watched(house, monkeypatch)
    await house.declare()
    await house.pool(workers=WORKERS, poll_interval=LONG).start()
    await watched.until_idle()
    before = watched.leases

    idle = asyncio.create_task(watched.until_idle())
    await asyncio.sleep(0)
    await house.put(["a"])
    await house.settled(completed=1)
    await idle

    assert watched.leases - before == 2
    assert watched.most == 1


async def test_idle_workers_take_turns_at_looking(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often they look, never two of them at once."""
    watched = Watched(house, monkeypatch)
    await house.declare()
    await house.pool(workers=WORKERS, poll_interval=timedelta(milliseconds=1)).start()

    for _ in range(20):
        await watched.until_idle()

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
