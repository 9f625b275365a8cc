"""The side of those who run it: the queue, and what was given up on."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from embedq import EmbedQ
from embedq.model import JobFilter, JobStatus, Reason
from embedq.operator import DeadReason, Operator
from embedq.shapes.queue import QueueStatus

from . import shown
from .directory import COLLECTION
from .forms import Replay
from .routes import TheDirectory

router = APIRouter(prefix="/api/admin", tags=["admin"])
MANY_DEAD = 10  # more than this, and somebody should look


def the_operator(request: Request) -> Operator:
    """Find the operator of this process."""
    eq: EmbedQ = request.app.state.eq
    return eq.operator


TheOperator = Annotated[Operator, Depends(the_operator)]


@router.get("/queue")
async def queue(operator: TheOperator) -> dict[str, Any]:
    """Show the queue and its workers, and what should worry somebody."""
    status = await operator.status()
    dead = status.total("failed")
    worry = f"{dead} embedding jobs were given up on: /api/admin/dead-letters/stats says of what"
    return {**QueueStatus.of(status).model_dump(mode="json"), "alerts": [worry] if dead > MANY_DEAD else []}


@router.get("/dead-letters")
async def dead_letters(
    operator: TheOperator,
    directory: TheDirectory,
    reason: DeadReason | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> dict[str, Any]:
    """List what was given up on, with its error and its entry."""
    why = Reason(reason) if reason else None
    page = await operator.dead(collection=COLLECTION, reason=why, limit=limit, cursor=cursor)
    rows = await directory.named([job.record_id for job in page.items])
    letters = [shown.dead_letter(job, rows.get(job.record_id)) for job in page.items]
    return {"dead_letters": letters, "next_cursor": page.next_cursor}


@router.get("/dead-letters/stats")
async def dead_stats(operator: TheOperator) -> dict[str, Any]:
    """Group dead letters by their causes."""
    return shown.causes(await operator.dead_stats())


@router.post("/dead-letters/replay", status_code=202)
async def replay_all(operator: TheOperator, which: Replay | None = None) -> dict[str, Any]:
    """Give dead letters another chance: all, or those of one reason."""
    why = Reason(which.reason) if which and which.reason else None
    revived = await operator.replay_all(JobFilter(status=JobStatus.FAILED, collection=COLLECTION, reason=why))
    return {"replayed": revived.total}


@router.post("/dead-letters/{job_id}/replay", status_code=202)
async def replay(job_id: str, operator: TheOperator) -> dict[str, Any]:
    """Give one dead letter another chance."""
    job = await operator.replay(job_id)
    return {"job_id": job.id, "status": job.status}
