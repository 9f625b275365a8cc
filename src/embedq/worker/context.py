"""What all parts of a worker share."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from embedq.ports import WorkerStore
from embedq.telemetry import Telemetry
from embedq.worker.health import PoolHealth
from embedq.worker.options import WorkerOptions


def _wall_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Clock and random numbers, which tests can replace."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _wall_clock  # only shown to people, never compared
    chance: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """The store, telemetry and clock that the parts of one pool share."""

    store: WorkerStore
    telemetry: Telemetry
    options: WorkerOptions
    timing: Timing
    health: PoolHealth
    stopping: asyncio.Event
    polling: asyncio.Lock = field(default_factory=asyncio.Lock)  # held by the one idle worker that polls

    async def sleep(self, span: timedelta) -> None:
        """Wait for a span, or until the pool stops."""
        await first_of(self.timing.sleep(span.total_seconds()), self.stopping.wait())


async def first_of(*waits: Awaitable[object]) -> None:
    """Wait until the first of these is done, and cancel the others. Its exception is raised here."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in done:
        task.result()
