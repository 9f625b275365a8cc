"""Answers to operators."""

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from embedq.model import Health
from embedq.operator import report
from embedq.operator.report import Verdict, coverage
from embedq.shapes.fields import Tally
from embedq.shapes.fleet import Fleet

Recovery = Literal["on", "off"]


class Queue(BaseModel):
    """Jobs by status; those that retry are counted within pending."""

    pending: Tally
    processing: Tally
    completed: Tally
    failed: Tally
    cancelled: Tally


class Coverage(BaseModel):
    """Which part of the live records has a vector of its current text, in all and per collection."""

    total: float
    by_collection: dict[str, float]


class Waits(BaseModel):
    """How many seconds the oldest pending job waits, in all and per collection."""

    max: float | None = Field(description="null: nothing waits.")
    by_collection: dict[str, float]


class QueueStatus(BaseModel):
    """The state of the whole queue."""

    queue: Queue
    paused: bool
    health: Health
    notes: list[str] = Field(description="What a person should know.")
    workers: Fleet
    recovery: Recovery = Field(description="off: nothing is rescued unasked.")
    records: Tally
    missing: Tally = Field(description="Live records without a vector of their current text.")
    truncated: Tally
    coverage: Coverage
    oldest_pending_seconds: Waits
    budgets: dict[str, dict[str, Any]] = Field(
        description="Per space, what the last interval has seen and how long a hold still lasts, in seconds."
    )

    @classmethod
    def of(cls, status: report.QueueStatus) -> Self:
        """Show the queue."""
        waits = {name: span.total_seconds() for name, span in status.oldest_pending.items()}
        return cls(
            queue=Queue(**{state: _tally(status, state) for state in Queue.model_fields}),
            paused=status.paused,
            health=status.health,
            notes=list(status.notes),
            workers=Fleet.of(status.workers),
            recovery=_recovery(status),
            records=_tally(status, "records"),
            missing=_tally(status, "missing"),
            truncated=_tally(status, "truncated"),
            coverage=Coverage(
                total=status.coverage,
                by_collection={name: coverage(one.records, one.uncovered) for name, one in status.counts.items()},
            ),
            oldest_pending_seconds=Waits(max=max(waits.values(), default=None), by_collection=waits),
            budgets={status.spaces.get(space, str(space)): dict(facts) for space, facts in status.budgets.items()},
        )


class Switched(BaseModel):
    """What the queue is now."""

    status: Literal["paused", "resumed"]


class Drained(BaseModel):
    """How waiting for the queue ended."""

    status: Literal["drained", "timeout", "stuck", "no_worker", "halted"] = Field(
        description="stuck: the jobs left are in no place, so no worker would lease them: `embedq repair` mends it. "
        "no_worker: none runs; halted: every embedder that is needed waits for a person."
    )
    waited_for: Literal["all", "leased"] = Field(description="leased: the queue is paused, so nothing else can move.")
    elapsed: float = Field(description="Seconds.")
    remaining: int = Field(description="Of what was waited for.")
    pending: int = Field(description="Left in the queue, in a pause too.")
    processing: int = Field(description="Leased.")
    reason: str | None = Field(description="Why it ended before its time, and what to do.")

    @classmethod
    def of(cls, drained: report.DrainReport) -> Self:
        """Show how a drain ended."""
        facts = {name: getattr(drained, name) for name in cls.model_fields}
        return cls(**facts | {"elapsed": round(drained.elapsed, 3)})


class Retried(BaseModel):
    """Dead letters that were armed again."""

    retried: Tally

    @classmethod
    def of(cls, revived: report.Revived) -> Self:
        """Show how many were armed again."""
        return cls(retried=_revived(revived))


class Replayed(BaseModel):
    """Dead letters that were armed again."""

    replayed: Tally

    @classmethod
    def of(cls, revived: report.Revived) -> Self:
        """Show how many were armed again."""
        return cls(replayed=_revived(revived))


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(BaseModel):
    """Whether the database answers and the fleet can work; details only with a key."""

    status: Literal["ready", "not_ready"]
    database: str | None = Field(default=None, description="ok, or what is wrong.")
    health: Health | None = None
    paused: bool | None = None
    recovery: Recovery | None = None
    notes: list[str] | None = None
    pending: int | None = None
    coverage: float | None = None
    workers: Fleet | None = None

    @classmethod
    def bare(cls, *, ready: bool) -> Self:
        """Show it to a caller without a key."""
        return cls(status="ready" if ready else "not_ready")

    @classmethod
    def of(cls, readiness: report.Readiness) -> Self:
        """Show it; what a database in trouble cannot say stays unset."""
        status, known = readiness.status, cls.bare(ready=readiness.ready).status
        if status is None:
            return cls(status=known, database=readiness.database)
        return cls(
            status=known,
            database=readiness.database,
            health=status.health,
            paused=status.paused,
            recovery=_recovery(status),
            notes=list(status.notes),
            pending=status.total("pending"),
            coverage=status.coverage,
            workers=Fleet.of(status.workers),
        )


class Repaired(BaseModel):
    """What a repair found in one collection."""

    missing: int
    armed: int
    mended: int


class RepairReport(BaseModel):
    """What a repair found and did."""

    armed: int
    placed: int = Field(description="Jobs that stood in no place or in several, and were queued again.")
    complete: bool
    by_collection: dict[str, Repaired]

    @classmethod
    def of(cls, repaired: report.RepairReport) -> Self:
        """Show what a repair did."""
        found = {
            name: Repaired(missing=one.missing, armed=one.armed, mended=one.mended)
            for name, one in repaired.by_collection.items()
        }
        armed, placed, complete = repaired.armed, repaired.placed, repaired.complete
        return cls(armed=armed, placed=placed, complete=complete, by_collection=found)


class Finding(BaseModel):
    """What the doctor saw, and what to do about it."""

    check: str
    verdict: Verdict
    message: str


class Checkup(BaseModel):
    """All that the doctor saw."""

    healthy: bool = Field(description="Nothing of it is a problem.")
    findings: list[Finding]

    @classmethod
    def of(cls, findings: Sequence[report.Finding]) -> Self:
        """Show what the doctor saw."""
        shown = [Finding(check=one.check, verdict=one.verdict, message=one.message) for one in findings]
        return cls(healthy=not any(one.verdict is Verdict.PROBLEM for one in findings), findings=shown)


def _tally(status: report.QueueStatus, counted: str) -> Tally:
    by_collection = {name: int(getattr(counts, counted)) for name, counts in status.counts.items()}
    return Tally(total=sum(by_collection.values()), by_collection=by_collection)


def _revived(revived: report.Revived) -> Tally:
    return Tally(total=revived.total, by_collection=dict(revived.by_collection))


def _recovery(status: report.QueueStatus) -> Recovery:
    return "on" if status.recovery else "off"
