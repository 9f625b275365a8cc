"""Warns of workers without a heartbeat."""

from datetime import datetime, timedelta

from embedq.model import WorkerId
from embedq.policy.jobs import MISSED_HEARTBEATS
from embedq.ports import Fleet
from embedq.telemetry import Event, Telemetry


class Watch:
    """Warns once of each worker that was not seen for three heartbeats. Its leases stay until they expire."""

    def __init__(self, store: Fleet, telemetry: Telemetry, *, heartbeat: timedelta) -> None:
        """Watch the workers of this store."""
        self._store = store
        self._telemetry = telemetry
        self._heartbeat = heartbeat
        self._warned: set[WorkerId] = set()

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Check once."""
        workers = await self._store.workers(heartbeat=self._heartbeat, now=now)
        silent = {worker.info.id: worker for worker in workers if worker.missed_heartbeats >= MISSED_HEARTBEATS}
        for name in silent.keys() - self._warned:
            self._telemetry.emit(
                Event.HEARTBEAT_MISSED,
                level="warning",
                workerId=name,
                missed=silent[name].missed_heartbeats,
                seenAt=silent[name].seen_at.isoformat(),
            )
        self._warned = set(silent)
