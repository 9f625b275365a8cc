"""A provider without budget leaves the workers to the spaces that may be asked, on every database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.worker.conftest import PATIENCE

from embedq.errors import Transient
from embedq.model import Ask, Budget, EmbedderName, Leased

if TYPE_CHECKING:
    from conftest import House, Provider

ONE_A_MINUTE = Budget(requests=1, interval=timedelta(minutes=1))
MANY = [f"text {number}" for number in range(40)]


class Spaces:
    """One space whose provider is limited, one that is free, and a count of what was asked of the store."""

    def __init__(self, house: House, make_provider: type[Provider], monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch the store of this house."""
        self.house = house
        self.limited, self.free = make_provider(remote=True), make_provider()
        self.leases = 0
        self.waits: list[timedelta] = []
        self._news = asyncio.Event()
        self._lease, self._wait = house.store.lease, house.store.wait_for_work
        monkeypatch.setattr(house.store, "lease", self.lease)
        monkeypatch.setattr(house.store, "wait_for_work", self.wait_for_work)

    async def lease(self, ask: Ask) -> Leased:
        """Count a lease."""
        self.leases += 1
        return await self._lease(ask)

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 as the port has it
        """Note how long a worker is ready to wait."""
        self.waits.append(timeout)
        self._news.set()
        await self._wait(timeout)

    async def idle(self, least: timedelta) -> None:
        """Wait until a worker waits for at least so long."""
        async with asyncio.timeout(PATIENCE):
            while not self.waits or self.waits[-1] < least:
                await self._news.wait()
                self._news.clear()

    def build(self, name: EmbedderName) -> Provider:
        """Choose the embedder of a space."""
        return self.limited if name.model == "limited" else self.free

    async def fill(self) -> None:
        """Put many jobs of the limited space first, then as many of the free one."""
        await self.house.declare("limited", model="limited")
        await self.house.declare("free", model="free")
        await self.house.put(MANY, "limited")
        await self.house.put(MANY, "free")


@pytest.fixture
def spaces(any_house: House, make_provider: type[Provider], monkeypatch: pytest.MonkeyPatch) -> Spaces:
    return Spaces(any_house, make_provider, monkeypatch)


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_free_space_is_drained_while_a_limited_one_waits(spaces: Spaces, workers: int) -> None:
    """Neither the older jobs of the limited space nor the batches leased ahead keep a worker from the free one."""
    await spaces.fill()
    await spaces.house.pool(workers=workers, batch_size=5, budget=ONE_A_MINUTE, build=spaces.build).start()

    await spaces.house.settled("free", completed=40)

    waiting = await spaces.house.settled("limited", completed=5, pending=35, processing=0)
    assert len(spaces.limited.calls) == 1
    assert waiting.failed == 0
    assert {job.attempts for job in await spaces.house.jobs()} == {0}


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_limited_space_gets_its_turn_when_its_budget_returns(spaces: Spaces, workers: int) -> None:
    """It wakes the workers itself, and its batches are as whole as they were before they had to wait."""
    budget = Budget(requests=1, interval=timedelta(milliseconds=300))
    await spaces.fill()
    began = time.monotonic()
    options = {"workers": workers, "batch_size": 20, "budget": budget, "poll_interval": timedelta(minutes=1)}
    await spaces.house.pool(build=spaces.build, **options).start()

    await spaces.house.settled("free", completed=40)
    await spaces.house.settled("limited", completed=40)

    assert [len(call) for call in spaces.limited.calls] == [20, 20]
    assert time.monotonic() - began >= 0.3


async def test_workers_without_budget_wait_until_it_returns(spaces: Spaces) -> None:
    """With nothing else to do they ask the store a few times, then sleep for what the budget needs."""
    await spaces.house.declare("limited", model="limited")
    await spaces.house.put(MANY, "limited")
    options = {"workers": 2, "batch_size": 5, "budget": ONE_A_MINUTE, "poll_interval": timedelta(minutes=2)}

    await spaces.house.pool(build=spaces.build, **options).start()

    await spaces.house.settled("limited", completed=5, pending=35, processing=0)
    await spaces.idle(timedelta(seconds=30))
    assert spaces.waits[-1] <= timedelta(minutes=1)
    assert spaces.leases <= 8


async def test_a_doubted_embedder_without_budget_is_not_waited_for(spaces: Spaces) -> None:
    """The probe that decides who is at fault needs a request too; till there is one, the batch goes back."""

    async def plan(_: Sequence[str]) -> None:
        raise Transient("503", code="503")

    spaces.limited.plan = plan
    await spaces.fill()
    budget = Budget(requests=5, interval=timedelta(minutes=1))
    await spaces.house.pool(batch_size=40, budget=budget, build=spaces.build).start()

    await spaces.house.settled("free", completed=40)
    await spaces.house.settled("limited", processing=0)
    assert len(spaces.limited.calls) <= 5
