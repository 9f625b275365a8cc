"""The fleet's registry."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, Field

from embedq import model
from embedq.model import Health
from embedq.shapes.fields import Moment


class Worker(BaseModel):
    """A worker as the registry knows it."""

    id: str
    host: str
    pid: int
    version: str
    embedder: str
    alive: bool
    health: Health
    started_at: Moment
    last_seen_at: Moment
    missed_heartbeats: int
    consecutive_failures: int
    last_success_at: Moment | None
    error_patterns: dict[str, int] = Field(description="Error codes of late, and how often each was met.")
    jobs_processed: int
    jobs_succeeded: int
    jobs_failed: int
    worker_id: str = Field(description="The id once more.")
    running: bool = Field(description="The same as `alive`.")
    success_rate: float | None = Field(description="null: it has processed nothing.")
    halted_embedders: list[str] = Field(description="Embedders that wait for a person.")
    embedder_troubles: dict[str, str] = Field(description="Embedders that halt, rest or fail, and what each said.")

    @classmethod
    def of(cls, worker: model.Worker) -> Self:
        """Show a worker."""
        info, report = worker.info, worker.report
        processed = report.succeeded + report.failed
        return cls(
            id=info.id,
            host=info.process.host,
            pid=info.process.pid,
            version=info.version,
            embedder=info.embedder,
            alive=worker.alive,
            health=report.health,
            started_at=worker.started_at,
            last_seen_at=worker.seen_at,
            missed_heartbeats=worker.missed_heartbeats,
            consecutive_failures=report.consecutive_failures,
            last_success_at=report.last_success_at,
            error_patterns=dict(report.error_patterns),
            jobs_processed=processed,
            jobs_succeeded=report.succeeded,
            jobs_failed=report.failed,
            worker_id=info.id,
            running=worker.alive,
            success_rate=round(report.succeeded / processed, 6) if processed else None,
            halted_embedders=list(report.halted),
            embedder_troubles=dict(report.troubles),
        )


class Fleet(BaseModel):
    """The workers that were seen within a day."""

    num_workers: int = Field(description="Those that are alive, in the whole fleet.")
    workers: list[Worker]
    total_jobs_processed: int
    total_jobs_succeeded: int
    total_jobs_failed: int

    @classmethod
    def of(cls, workers: Sequence[model.Worker]) -> Self:
        """Show all workers."""
        return cls(workers=[Worker.of(worker) for worker in workers], **figures(workers))


class FleetPage(Fleet):
    """Some workers by their ids, where the list goes on, and the figures of all."""

    next_cursor: str | None

    @classmethod
    def of_page(cls, page: model.Page[model.Worker], everyone: Sequence[model.Worker]) -> Self:
        """Show some workers, and the figures of everyone."""
        some = [Worker.of(worker) for worker in page.items]
        return cls(workers=some, next_cursor=page.next_cursor, **figures(everyone))


class Registered(BaseModel):
    """A worker that was entered."""

    id: str


class Beaten(BaseModel):
    """A heartbeat that was noted."""

    id: str
    status: Literal["ok"] = "ok"


def figures(workers: Sequence[model.Worker]) -> dict[str, int]:
    """Sum up what workers have done."""
    succeeded = sum(worker.report.succeeded for worker in workers)
    failed = sum(worker.report.failed for worker in workers)
    return {
        "num_workers": sum(worker.alive for worker in workers),
        "total_jobs_processed": succeeded + failed,
        "total_jobs_succeeded": succeeded,
        "total_jobs_failed": failed,
    }
