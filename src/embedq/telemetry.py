"""What happened, said once. Rooms emit events; handlers make log lines and metrics of them."""

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
    INDEX = "index"  # the search index was built, loaded, saved or refused
    REQUEST_FAILED = "request_failed"  # an HTTP request met an error that nobody expected


Facts = Mapping[str, Any]
Handler = Callable[[Event, str, Facts], None]  # the event, its level (debug, info, warning, error, critical), its facts


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
