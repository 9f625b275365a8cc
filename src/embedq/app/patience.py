"""Patience at the start: a database that is being restarted just then is waited for, one that refuses us is not."""

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
    """Time and chance, so that tests can hand in their own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = monotonic
    chance: Callable[[], float] = random.random


class Patience:
    """What a process does before it is up is done again for a bounded time while the database cannot be reached."""

    def __init__(self, telemetry: Telemetry, span: timedelta, timing: Timing | None = None) -> None:
        """Be patient from now on, for so long in all."""
        self._timing = timing or Timing()
        self._trouble = Trouble(telemetry, Event.STORE_TROUBLE, act="start")
        self._end = self._timing.monotonic() + span.total_seconds()
        self.waited = False  # the database could not be reached

    async def insist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do what can be done twice, again and again with growing pauses; what refuses us is no reason to wait."""
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
