"""What happened, said once. Rooms emit events; handlers make log lines and metrics of them."""

import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any


class Event(StrEnum):
    """Every act that is worth a line. The value is the name in logs."""

    STARTED = "started"  # the process is up; says what runs and which defaults it took
    STOPPING = "stopping"
    STOPPED = "stopped"
    PUT = "put"
    DELETED = "deleted"
    LEASED = "leased"
    EMBEDDED = "embedded"  # one embedder call
    REUSED = "reused"
    SETTLED = "settled"  # a batch, with counts per outcome
    STORED = "stored"  # latency from put to stored, per batch
    JOB_RETRY = "job_retry"
    JOB_FAILED = "job_failed"
    LEASE_LOST = "lease_lost"
    HEARTBEAT_FAILED = "heartbeat_failed"
    HEARTBEAT_MISSED = "heartbeat_missed"  # another worker was not seen for three heartbeats
    BUDGET_EMPTY = "budget_empty"
    THROTTLED = "throttled"  # the provider said not now
    EMBEDDER_BACKOFF = "embedder_backoff"
    EMBEDDER_HALTED = "embedder_halted"
    HEALTH_CHANGED = "health_changed"
    RUNNER_RESTARTED = "runner_restarted"
    RESCUED = "rescued"
    RESCUE_FAILED = "rescue_failed"
    PURGED = "purged"
    ATTACHED = "attached"  # a table became a collection
    DETACHED = "detached"
    GATHERED = "gathered"  # changes of attached tables became records and jobs
    TABLE_TROUBLE = "table_trouble"  # changes of an attached table cannot be taken over just now
    RECONCILED = "reconciled"
    QUOTA_REPLAYED = "quota_replayed"
    UPKEEP_FAILED = "upkeep_failed"
    PAUSED = "paused"
    RESUMED = "resumed"
    REVIVED = "revived"
    CANCELLED = "cancelled"
    SEARCHED = "searched"
    STORE_TROUBLE = "store_trouble"
    RECOVERED = "recovered"  # what has failed again and again goes well again
    INDEX = "index"  # a search index is being built, was built, loaded, saved or refused
    CONNECTIONS_BOUNDED = "connections_bounded"  # connections were refused, dropped or timed out, so many in a minute
    REQUEST_FAILED = "request_failed"  # an HTTP request met an error that nobody expected


Facts = Mapping[str, Any]
Handler = Callable[[Event, str, Facts], None]  # the event, its level (debug, info, warning, error, critical), its facts
QUIET_SECONDS = 60.0  # a failure that repeats is told no more often


class Telemetry:
    """Hands each event to every handler."""

    def __init__(self, *handlers: Handler) -> None:
        """Start with these handlers."""
        self._handlers = list(handlers)

    def add(self, handler: Handler) -> None:
        """Tell one more handler from now on."""
        self._handlers.append(handler)

    def emit(self, event: Event, *, level: str = "info", **facts: object) -> None:
        """Say what happened."""
        for handler in self._handlers:
            handler(event, level, facts)


class Trouble:
    """A failure that may repeat for hours: told when it begins, then once a minute, and once when it is over."""

    def __init__(
        self, telemetry: Telemetry, event: Event, *, monotonic: Callable[[], float] = time.monotonic, **facts: object
    ) -> None:
        """Tell `event` with these facts, and whatever each failure adds to them."""
        self._telemetry = telemetry
        self._event = event
        self._monotonic = monotonic
        self._facts = facts
        self._times = 0
        self._began_at = 0.0
        self._quiet_until = 0.0
        self._told: set[str] = set()  # errors, since it was quiet last

    def met(self, error: str, *, level: str = "error", **facts: object) -> None:
        """Tell of a failure, unless the same error was told within the last minute."""
        now = self._monotonic()
        if self._times == 0:
            self._began_at = now
        self._times += 1
        if now >= self._quiet_until:
            self._told.clear()
            self._quiet_until = now + QUIET_SECONDS
        if error not in self._told:
            self._told.add(error)
            self._telemetry.emit(self._event, level=level, **self._facts, **facts, times=self._times, error=error)

    def over(self) -> None:
        """Tell that it goes well again, if it did not before."""
        if self._times:
            seconds = round(self._monotonic() - self._began_at, 3)
            facts = {"after": self._event.value, **self._facts, "times": self._times, "seconds": seconds}
            self._telemetry.emit(Event.RECOVERED, level="info", **facts)
            self._times, self._quiet_until = 0, 0.0
