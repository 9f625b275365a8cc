"""Turns changes of attached tables into records and jobs, also while every worker is busy."""

from datetime import datetime

from embedq.ports import Attaching
from embedq.telemetry import Event, Telemetry


class Gather:
    """Processes noted changes of tables in small steps."""

    def __init__(self, store: Attaching, telemetry: Telemetry) -> None:
        """Gather on this store."""
        self._store = store
        self._telemetry = telemetry

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Gather until nothing is left to do."""
        del now  # a table's rows have no time of their own
        total = 0
        while done := await self._store.gather():
            total += done
        if total:
            self._telemetry.emit(Event.GATHERED, level="debug", steps=total)
