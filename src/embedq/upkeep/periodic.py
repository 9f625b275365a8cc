"""Runs a background task periodically."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from embedq.telemetry import Event, Telemetry, Trouble

Duty = Callable[[], Awaitable[None]]


class Periodic:
    """A duty that runs at start and then after every interval. Its errors are reported, but not each time."""

    def __init__(
        self,
        name: str,
        interval: timedelta,
        duty: Duty,
        *,
        telemetry: Telemetry,
        failed: Event = Event.UPKEEP_FAILED,
    ) -> None:
        """Run `duty`; emit `failed` if it raises."""
        self.name = name
        self._interval = interval
        self._duty = duty
        self._trouble = Trouble(telemetry, failed, duty=name)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        """Say whether it runs at all: an interval of zero switches it off."""
        return self._interval > timedelta(0)

    def start(self) -> None:
        """Start, unless it is running or switched off."""
        if self._task is None and self.is_on:
            self._task = asyncio.create_task(self._run(), name=f"embedq-{self.name}")

    async def stop(self) -> None:
        """Cancel it, even midway: every duty consists of small independent steps."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._try()
            await asyncio.sleep(self._interval.total_seconds())

    async def _try(self) -> None:
        try:
            await self._duty()
        except Exception as error:  # noqa: BLE001 a service loop: the next round may succeed
            self._trouble.met(f"{type(error).__name__}: {error}")
        else:
            self._trouble.over()
