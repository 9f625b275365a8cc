"""Dead letters that get another chance by themselves."""

from datetime import datetime, timedelta

from embedq.model import JobFilter, JobStatus
from embedq.ports import Keeping, Operating
from embedq.telemetry import Event, Telemetry

STEP = 1000


class ReplayQuota:
    """Replays letters with reason `quota`: the provider's refusal was never the text's fault."""

    def __init__(self, store: Keeping, telemetry: Telemetry, *, rest: timedelta) -> None:
        """Let letters lie for `rest` first."""
        self._store = store
        self._telemetry = telemetry
        self._rest = rest

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Replay those that are old enough."""
        if count := await self._store.replay_quota(older_than=self._rest, now=now):
            self._telemetry.emit(Event.QUOTA_REPLAYED, count=count)


class RetryFailed:
    """Revives all dead letters once, if that was asked for at startup."""

    def __init__(self, store: Operating, telemetry: Telemetry) -> None:
        """Revive on this store."""
        self._store = store
        self._telemetry = telemetry
        self._done = False

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Revive as many as were dead at the start: a text that fails again at once is not revived for ever."""
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
