"""Events: emitted by all packages; handlers turn them into log lines and metrics."""

import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any


class Event(StrEnum):
    """Everything that is logged. The value is the name in logs."""

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
    THROTTLED = "throttled"  # the provider asked to wait
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
    TABLE_TROUBLE = "table_trouble"  # changes of an attached table cannot be read at the moment
    RECONCILED = "reconciled"
    QUOTA_REPLAYED = "quota_replayed"
    UPKEEP_FAILED = "upkeep_failed"
    PAUSED = "paused"
    RESUMED = "resumed"
    REVIVED = "revived"
    CANCELLED = "cancelled"
    SEARCHED = "searched"
    STORE_TROUBLE = "store_trouble"
    RECOVERED = "recovered"  # what failed repeatedly succeeds again
    MODEL = "model"  # the files of a local model are being fetched, or were
    INDEX = "index"  # a search index is being built, was built, loaded, saved or refused
    CONNECTIONS_BOUNDED = "connections_bounded"  # connections were refused, dropped or timed out, so many in a minute
    REQUEST_FAILED = "request_failed"  # an HTTP request raised an unexpected error


Facts = Mapping[str, Any]
Handler = Callable[[Event, str, Facts], None]  # the event, its level (debug, info, warning, error, critical), its facts
QUIET_SECONDS = 60.0  # a repeated failure is reported no more often


class Telemetry:
    """Passes each event to every handler."""

    def __init__(self, *handlers: Handler) -> None:
        """Start with these handlers."""
        self._handlers = list(handlers)

    def add(self, handler: Handler) -> None:
        """Add a handler."""
        self._handlers.append(handler)

    def emit(self, event: Event, *, level: str = "info", **facts: object) -> None:
        """Pass an event to every handler."""
        for handler in self._handlers:
            handler(event, level, facts)


class Trouble:
    """A failure that may repeat for hours: reported when it begins, then once a minute, and once when it ends."""

    def __init__(
        self, telemetry: Telemetry, event: Event, *, monotonic: Callable[[], float] = time.monotonic, **facts: object
    ) -> None:
        """Emit `event` with these facts and those of each failure."""
        self._telemetry = telemetry
        self._event = event
        self._monotonic = monotonic
        self._facts = facts
        self._times = 0
        self._began_at = 0.0
        self._quiet_until = 0.0
        self._reported: set[str] = set()  # errors that were reported since the failure began

    def met(self, error: str, *, level: str = "error", **facts: object) -> None:
        """Report a failure, unless the same error was reported within the last minute."""
        now = self._monotonic()
        if self._times == 0:
            self._began_at = now
        self._times += 1
        if now >= self._quiet_until:
            self._reported.clear()
            self._quiet_until = now + QUIET_SECONDS
        if error not in self._reported:
            self._reported.add(error)
            self._telemetry.emit(self._event, level=level, **self._facts, **facts, times=self._times, error=error)

    def over(self) -> None:
        """Report the recovery, if there was a failure."""
        if self._times:
            seconds = round(self._monotonic() - self._began_at, 3)
            facts = {"after": self._event.value, **self._facts, "times": self._times, "seconds": seconds}
            self._telemetry.emit(Event.RECOVERED, level="info", **facts)
            self._times, self._quiet_until = 0, 0.0
