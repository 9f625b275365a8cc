"""The one shape of everything that runs unasked."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from embedq.telemetry import Event, Telemetry, Trouble

Duty = Callable[[], Awaitable[None]]


class Periodic:
    """A duty done at boot and then after every interval. Its errors hurt nobody; they are told, but not each time."""

    def __init__(
        self,
        name: str,
        interval: timedelta,
        duty: Duty,
        *,
        telemetry: Telemetry,
        failed: Event = Event.UPKEEP_FAILED,
    ) -> None:
        """Do `duty`, telling `failed` where it raises."""
        self.name = name
        self._interval = interval
        self._duty = duty
        self._trouble = Trouble(telemetry, failed, duty=name)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        """Say whether it is done at all: an interval of zero switches it off."""
        return self._interval > timedelta(0)

    def start(self) -> None:
        """Begin with the duty, unless it is running or switched off."""
        if self._task is None and self.is_on:
            self._task = asyncio.create_task(self._run(), name=f"embedq-{self.name}")

    async def stop(self) -> None:
        """Stop in the middle, if need be: every duty goes in small steps that stand alone."""
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
        except Exception as error:  # noqa: BLE001 a service loop: the next round may go better
            self._trouble.met(f"{type(error).__name__}: {error}")
        else:
            self._trouble.over()
