"""Retries at startup: wait for an unreachable database; any other error is raised at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TypeVar

from embedq.errors import StoreUnreachable
from embedq.model import RetryPolicy
from embedq.policy.attempts import delay
from embedq.telemetry import Event, Telemetry, Trouble

T = TypeVar("T")

AT_START = timedelta(seconds=30)
PAUSES = RetryPolicy(base=timedelta(milliseconds=200), cap=timedelta(seconds=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Clock and random numbers, which tests can replace."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = monotonic
    chance: Callable[[], float] = random.random


class StartupRetry:
    """Retries the steps of a startup for a bounded time while the database is unreachable."""

    def __init__(self, telemetry: Telemetry, span: timedelta, timing: Timing | None = None) -> None:
        """Start the retry window: `span` for all steps together."""
        self._timing = timing or Timing()
        self._trouble = Trouble(telemetry, Event.STORE_TROUBLE, act="start")
        self._end = self._timing.monotonic() + span.total_seconds()
        self.waited = False  # whether the database was unreachable

    async def run(self, act: Callable[[], Awaitable[T]]) -> T:
        """Run an idempotent step, retrying with backoff while the database is unreachable; other errors are raised."""
        tries = 0
        while True:
            try:
                done = await act()
            except StoreUnreachable as error:
                left = self._end - self._timing.monotonic()
                if left <= 0:
                    raise
                self.waited = True
                self._trouble.met(str(error), level="warning", triesForSeconds=round(left, 1))
                await self._timing.sleep(min(left, delay(PAUSES, tries, self._timing.chance()).total_seconds()))
                tries += 1
            else:
                self._trouble.over()
                return done
