"""What people who run it are told. Each report writes itself as plain facts, the same for HTTP and the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from embedq.model import Counts, Health, Reason, SpaceId, Worker

STATUSES = ("pending", "processing", "completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """The whole queue at one glance."""

    counts: Mapping[str, Counts]  # by collection; jobs that retry are counted within pending
    paused: bool
    recovery: bool  # False: nothing is rescued unasked
    workers: Sequence[Worker]
    health: Health
    notes: Sequence[str]  # what a person should know, in sentences
    oldest_pending: Mapping[str, timedelta]
    budgets: Mapping[SpaceId, Mapping[str, Any]]
    spaces: Mapping[SpaceId, str] = field(default_factory=dict)

    def total(self, status: str) -> int:
        """Count the jobs of a status in all collections."""
        return sum(int(getattr(counts, status)) for counts in self.counts.values())

    @property
    def coverage(self) -> float:
        """Say which part of all live records has a vector of its current text."""
        return coverage(sum(c.records for c in self.counts.values()), sum(c.uncovered for c in self.counts.values()))

    def facts(self) -> dict[str, Any]:
        """Write it as plain facts."""
        return {
            "queue": {status: self._by_collection(status) for status in STATUSES},
            "paused": self.paused,
            "recovery": "on" if self.recovery else "off",
            "health": self.health.value,
            "notes": list(self.notes),
            "records": self._by_collection("records"),
            "missing": self._by_collection("missing"),
            "truncated": self._by_collection("truncated"),
            "coverage": {
                "total": self.coverage,
                "by_collection": {name: coverage(c.records, c.uncovered) for name, c in self.counts.items()},
            },
            "oldest_pending_seconds": {
                "max": max((span.total_seconds() for span in self.oldest_pending.values()), default=None),
                "by_collection": {name: span.total_seconds() for name, span in self.oldest_pending.items()},
            },
            "workers": fleet_facts(self.workers),
            "budgets": {self.spaces.get(space, str(space)): dict(facts) for space, facts in self.budgets.items()},
        }

    def _by_collection(self, field_name: str) -> dict[str, Any]:
        by_collection = {name: int(getattr(counts, field_name)) for name, counts in self.counts.items()}
        return {"total": sum(by_collection.values()), "by_collection": by_collection}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How waiting for the queue ended."""

    status: str  # drained, timeout
    waited_for: str  # all; leased: the queue was paused, so nothing else could move
    elapsed: float  # seconds
    remaining: int  # of what was waited for
    pending: int  # left in the queue, in a pause too

    def facts(self) -> dict[str, Any]:
        """Write it as plain facts."""
        return {
            "status": self.status,
            "waited_for": self.waited_for,
            "elapsed": round(self.elapsed, 3),
            "remaining": self.remaining,
            "pending": self.pending,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Revived:
    """How many dead letters were armed again."""

    by_collection: Mapping[str, int]

    @property
    def total(self) -> int:
        """Count them all."""
        return sum(self.by_collection.values())

    def facts(self) -> dict[str, Any]:
        """Write it as plain facts."""
        return {"total": self.total, "by_collection": dict(self.by_collection)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair found in one collection."""

    missing: int = 0  # live records without a current vector
    armed: int = 0  # of them had no job and got one
    mended: int = 0  # the index of what is missing had not known


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What a repair found and did."""

    by_collection: Mapping[str, Repaired]
    complete: bool  # False: the limit ended it

    @property
    def armed(self) -> int:
        """Count the records that got a job."""
        return sum(found.armed for found in self.by_collection.values())

    def facts(self) -> dict[str, Any]:
        """Write it as plain facts."""
        return {
            "armed": self.armed,
            "complete": self.complete,
            "by_collection": {
                name: {"missing": found.missing, "armed": found.armed, "mended": found.mended}
                for name, found in self.by_collection.items()
            },
        }


class DeadReason(StrEnum):
    """Why a job is a dead letter. A job that was cancelled has its reason too, but is none."""

    PERMANENT_ERROR = Reason.PERMANENT_ERROR.value
    MAX_RETRIES_EXCEEDED = Reason.MAX_RETRIES_EXCEEDED.value
    CRASH_LOOP = Reason.CRASH_LOOP.value
    QUOTA = Reason.QUOTA.value


class Verdict(StrEnum):
    """How grave a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the doctor saw, and what to do about it."""

    check: str
    verdict: Verdict
    message: str

    def facts(self) -> dict[str, Any]:
        """Write it as plain facts."""
        return {"check": self.check, "verdict": self.verdict.value, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether this process can serve, and how its fleet fares."""

    ready: bool
    database: str  # ok, or what is wrong
    status: QueueStatus | None  # None: the database did not answer

    def facts(self) -> dict[str, Any]:
        """Write it as plain facts."""
        facts: dict[str, Any] = {"status": "ready" if self.ready else "not_ready", "database": self.database}
        if self.status is not None:
            facts |= {
                "health": self.status.health.value,
                "paused": self.status.paused,
                "recovery": "on" if self.status.recovery else "off",
                "notes": list(self.status.notes),
                "pending": self.status.total("pending"),
                "coverage": self.status.coverage,
                "workers": fleet_facts(self.status.workers),
            }
        return facts


def counted(number: int, noun: str) -> str:
    """Write a number and what it counts, as people say it."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def coverage(records: int, missing: int) -> float:
    """Say which part has a vector; of nothing, all has."""
    return 1.0 if records <= 0 else round(max(0, records - missing) / records, 6)


def fleet_facts(workers: Sequence[Worker]) -> dict[str, Any]:
    """Write the registry as plain facts."""
    succeeded = sum(worker.report.succeeded for worker in workers)
    failed = sum(worker.report.failed for worker in workers)
    return {
        "num_workers": sum(worker.alive for worker in workers),
        "workers": [worker_facts(worker) for worker in workers],
        "total_jobs_processed": succeeded + failed,
        "total_jobs_succeeded": succeeded,
        "total_jobs_failed": failed,
    }


def worker_facts(worker: Worker) -> dict[str, Any]:
    """Write a worker as plain facts."""
    report = worker.report
    processed = report.succeeded + report.failed
    return {
        "id": worker.info.id,
        "worker_id": worker.info.id,
        "host": worker.info.process.host,
        "pid": worker.info.process.pid,
        "version": worker.info.version,
        "embedder": worker.info.embedder,
        "alive": worker.alive,
        "running": worker.alive,
        "health": report.health.value,
        "started_at": _moment(worker.started_at),
        "last_seen_at": _moment(worker.seen_at),
        "missed_heartbeats": worker.missed_heartbeats,
        "consecutive_failures": report.consecutive_failures,
        "success_rate": round(report.succeeded / processed, 6) if processed else None,
        "last_success_at": _moment(report.last_success_at),
        "error_patterns": dict(report.error_patterns),
        "halted_embedders": list(report.halted),
        "embedder_troubles": dict(report.troubles),
        "jobs_processed": processed,
        "jobs_succeeded": report.succeeded,
        "jobs_failed": report.failed,
    }


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
