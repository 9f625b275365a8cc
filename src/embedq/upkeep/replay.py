"""Automatic replay of dead letters."""

from datetime import datetime, timedelta

from embedq.model import JobFilter, JobStatus
from embedq.ports import Keeping, Operating
from embedq.telemetry import Event, Telemetry

STEP = 1000


class ReplayQuota:
    """Replays dead letters with reason `quota`: the refusal was not the text's fault."""

    def __init__(self, store: Keeping, telemetry: Telemetry, *, rest: timedelta) -> None:
        """Replay dead letters that are older than `rest`."""
        self._store = store
        self._telemetry = telemetry
        self._rest = rest

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Replay those that are old enough."""
        if count := await self._store.replay_quota(older_than=self._rest, now=now):
            self._telemetry.emit(Event.QUOTA_REPLAYED, count=count)


class RetryFailed:
    """Revives all dead letters once, if the settings ask for it."""

    def __init__(self, store: Operating, telemetry: Telemetry) -> None:
        """Revive on this store."""
        self._store = store
        self._telemetry = telemetry
        self._done = False

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Revive as many as were dead at the start: a text that fails again at once is not revived forever."""
        if self._done:
            return
        left = sum(counts.failed for counts in (await self._store.counts()).values())
        revived = 0
        which = JobFilter(status=JobStatus.FAILED)
        while left > 0 and (some := await self._store.revive(which, limit=min(STEP, left), now=now)):
            left -= some
            revived += some
        self._done = True
        if revived:
            self._telemetry.emit(Event.REVIVED, count=revived, because="startup")
