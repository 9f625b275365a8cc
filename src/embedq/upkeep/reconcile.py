"""Gives a job to records with neither a vector nor a job."""

from collections.abc import Mapping
from datetime import datetime

from embedq.ports.needs import ReconcileStore
from embedq.telemetry import Event, Telemetry

STEP = 500  # records per query


class Reconcile:
    """Walks every collection by key, so that records that keep failing do not hide the others."""

    def __init__(self, store: ReconcileStore, telemetry: Telemetry, *, one_database: bool) -> None:
        """With `one_database` a finding is an alarm: it must never happen."""
        self._store = store
        self._telemetry = telemetry
        self._one_database = one_database

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Walk once."""
        await self.walk(now=now)

    async def walk(self, *, now: datetime | None = None) -> Mapping[str, int]:
        """Arm records that need a job; return how many per collection."""
        names = [collection.declaration.name for collection in await self._store.collections()]
        found = {name: await self._arm(name, now) for name in names}
        for name, count in found.items():
            if count:
                self._telemetry.emit(
                    Event.RECONCILED,
                    level="error" if self._one_database else "warning",
                    collection=name,
                    count=count,
                )
        return found

    async def _arm(self, collection: str, now: datetime | None) -> int:
        after, armed = None, 0
        while some := await self._store.missing(collection, after=after, limit=STEP):
            after = some[-1].key
            if needy := [record.id for record in some if record.needs_job]:
                armed += await self._store.reconcile(collection, needy, now=now)
        return armed
