"""Deletes finished jobs past their retention."""

from datetime import datetime, timedelta

from embedq.ports import Keeping
from embedq.telemetry import Event, Telemetry


class Purge:
    """Deletes in small steps, so that no writer waits for it."""

    def __init__(self, store: Keeping, telemetry: Telemetry, *, retention: timedelta) -> None:
        """Keep finished jobs for this long."""
        self._store = store
        self._telemetry = telemetry
        self._retention = retention

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Purge until none is left."""
        purged = 0
        while some := await self._store.purge(older_than=self._retention, now=now):
            purged += some
        if purged:
            self._telemetry.emit(Event.PURGED, count=purged, retentionDays=self._retention / timedelta(days=1))
