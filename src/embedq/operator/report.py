"""What the operator's methods return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from embedq.model import Counts, Health, Reason, SpaceId, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A summary of the whole queue."""

    counts: Mapping[str, Counts]  # by collection; jobs that retry are counted within pending
    paused: bool
    recovery: bool  # False: no automatic rescue
    workers: Sequence[Worker]
    health: Health
    notes: Sequence[str]  # warnings, in sentences
    oldest_pending: Mapping[str, timedelta]
    budgets: Mapping[SpaceId, Mapping[str, Any]]
    spaces: Mapping[SpaceId, str] = field(default_factory=dict)

    def total(self, status: str) -> int:
        """Count the jobs of a status in all collections."""
        return sum(int(getattr(counts, status)) for counts in self.counts.values())

    @property
    def coverage(self) -> float:
        """Return the fraction of live records with a vector of their current text."""
        return coverage(sum(c.records for c in self.counts.values()), sum(c.uncovered for c in self.counts.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How a drain ended."""

    status: str  # drained; timeout; stuck: the jobs left are in no place; no_worker, halted: nobody can embed them
    waited_for: str  # all; leased: the queue was paused, so only leased jobs could make progress
    elapsed: float  # seconds
    remaining: int  # of what was waited for
    pending: int  # left in the queue, also while paused
    processing: int  # leased
    reason: str | None = None  # why it ended before its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Revived:
    """How many dead letters were armed again."""

    by_collection: Mapping[str, int]

    @property
    def total(self) -> int:
        """Count them all."""
        return sum(self.by_collection.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair found in one collection."""

    missing: int = 0  # live records without a current vector
    armed: int = 0  # of them had no job and got one
    mended: int = 0  # were not in the index of missing vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What a repair found and did."""

    by_collection: Mapping[str, Repaired]
    complete: bool  # False: the limit ended it
    placed: int = 0  # jobs that were in no place or in several, and were queued again

    @property
    def armed(self) -> int:
        """Count the records that got a job."""
        return sum(found.armed for found in self.by_collection.values())


class DeadReason(StrEnum):
    """Why a job is a dead letter. A job that was cancelled has its reason too, but is none."""

    PERMANENT_ERROR = Reason.PERMANENT_ERROR.value
    MAX_RETRIES_EXCEEDED = Reason.MAX_RETRIES_EXCEEDED.value
    CRASH_LOOP = Reason.CRASH_LOOP.value
    QUOTA = Reason.QUOTA.value


class Verdict(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the doctor found, and what to do about it."""

    check: str
    verdict: Verdict
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether this process can serve, and its fleet's health."""

    ready: bool
    database: str  # ok, or what is wrong
    status: QueueStatus | None  # None: the database did not answer


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def coverage(records: int, missing: int) -> float:
    """Return the fraction that has a vector; 1.0 if there are no records."""
    return 1.0 if records <= 0 else round(max(0, records - missing) / records, 6)
