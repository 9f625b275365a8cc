"""Jobs and dead letters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, Field

from embedq import model
from embedq.model import ErrorCategory, JobStatus, Reason
from embedq.shapes.fields import LANES, Moment, PriorityName, Tally


class JobError(BaseModel):
    """The last error of a job."""

    category: ErrorCategory
    code: str
    message: str
    stack: str | None

    @classmethod
    def of(cls, fault: model.Fault) -> Self:
        """Show an error."""
        return cls(category=fault.category, code=fault.code, message=fault.message, stack=fault.stack)


class Job(BaseModel):
    """A job as people see it."""

    id: str
    collection: str
    record_id: str
    space: str
    status: JobStatus
    priority: PriorityName
    attempts: int
    max_attempts: int
    crashes: int
    created_at: Moment
    started_at: Moment | None
    completed_at: Moment | None
    lease_until: Moment | None
    worker_id: str | None
    processing_time_ms: int | None
    reason: Reason | None
    error: JobError | None

    @classmethod
    def of(cls, job: model.Job) -> Self:
        """Show a job with as much of it as this shape has."""
        plain = {name: getattr(job, name) for name in cls.model_fields.keys() - {"priority", "error"}}
        error = None if job.error is None else JobError.of(job.error)
        return cls(priority=LANES[job.priority], error=error, **plain)


class JobPage(BaseModel):
    """Some jobs, and where the list goes on."""

    jobs: list[Job]
    next_cursor: str | None

    @classmethod
    def of(cls, page: model.Page[model.Job]) -> Self:
        """Show a page of jobs."""
        return cls(jobs=[Job.of(job) for job in page.items], next_cursor=page.next_cursor)


class Cancelled(BaseModel):
    """Jobs that were cancelled, and those that were not, each with the reason."""

    cancelled: list[Job]
    refused: dict[str, str]


class DeadLetter(Job):
    """A failed job, with the span it was tried in."""

    first_attempt_at: Moment | None
    last_attempt_at: Moment | None


class DeadPage(BaseModel):
    """Some dead letters, and where the list goes on."""

    jobs: list[DeadLetter]
    next_cursor: str | None

    @classmethod
    def of(cls, page: model.Page[model.Job]) -> Self:
        """Show a page of dead letters."""
        return cls(jobs=[DeadLetter.of(job) for job in page.items], next_cursor=page.next_cursor)


class Cause(BaseModel):
    """Dead letters of one collection that ended alike."""

    collection: str
    reason: Reason | None
    category: ErrorCategory | None
    code: str | None
    count: int
    newest_at: Moment | None = Field(description="When the newest of them failed.")
    example: str | None = Field(description="The newest one's message.")


class DeadStats(BaseModel):
    """Dead letters grouped by their causes."""

    total: int
    causes: list[Cause] = Field(
        description="collection, reason, category, code, count, the newest moment, and a message as example."
    )

    @classmethod
    def of(cls, groups: Sequence[Mapping[str, Any]]) -> Self:
        """Show groups of dead letters."""
        causes = [Cause.model_validate(group) for group in groups]
        return cls(total=sum(cause.count for cause in causes), causes=causes)


class Requeued(BaseModel):
    """Jobs that were taken back from workers that did not renew them."""

    requeued: Tally
    jobs: list[str]

    @classmethod
    def of(cls, rescued: Sequence[model.Rescued]) -> Self:
        """Show which jobs were taken back."""
        by_collection = dict(Counter(job.collection for job in rescued))
        return cls(
            requeued=Tally(total=len(rescued), by_collection=by_collection), jobs=[job.job_id for job in rescued]
        )
