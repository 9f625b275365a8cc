"""Operate the queue: status, pause, resume, drain, retry, requeue."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from embedq.api.dependencies import TheOperator
from embedq.api.parameters import OfCollection, OfTenant
from embedq.api.presence import while_connected
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.shapes.jobs import Requeued
from embedq.shapes.queue import Drained, QueueStatus, Retried, Switched

router = APIRouter(prefix="/admin/queue", tags=["queue"], route_class=StrictRoute)
MAX_DRAIN_SECONDS = 3600


@router.get("/status", responses=documented())
async def queue_status(operator: TheOperator) -> QueueStatus:
    """Show the state of the whole queue."""
    return QueueStatus.of(await operator.status())


@router.post("/pause", responses=documented(507))
async def pause_queue(operator: TheOperator) -> Switched:
    """Stop all leasing, on every machine, across restarts. Jobs that are leased are finished."""
    await operator.pause()
    return Switched(status="paused")


@router.post("/resume", responses=documented(507))
async def resume_queue(operator: TheOperator) -> Switched:
    """Let leasing go on, and try halted embedders again."""
    await operator.resume()
    return Switched(status="resumed")


@router.post("/drain", responses=documented())
async def drain_queue(
    request: Request,
    operator: TheOperator,
    timeout: Annotated[  # noqa: ASYNC109 a timeout is an answer, not an error
        float, Query(ge=0, le=MAX_DRAIN_SECONDS, allow_inf_nan=False, description="Seconds to wait at most.")
    ] = 300,
) -> Drained:
    """Wait until nothing is left that can still move: while paused, until no job is leased.

    The wait ends when its client leaves, and when nobody can work: no worker runs, or every embedder is halted.
    """
    return Drained.of(await while_connected(request, operator.drain(timeout)))


@router.post("/retry-failed", responses=documented(404, 507))
async def retry_failed(operator: TheOperator, collection: OfCollection = None, tenant: OfTenant = None) -> Retried:
    """Arm all dead letters again, or those of one collection or tenant."""
    return Retried.of(await operator.retry_failed(collection, tenant=tenant))


@router.post("/requeue-stale", responses=documented(507))
async def requeue_stale(
    operator: TheOperator,
    threshold_minutes: Annotated[
        float | None,
        Query(ge=0, le=525_600, allow_inf_nan=False, description="Also jobs not renewed for so long, if it is given."),
    ] = None,
) -> Requeued:
    """Take back jobs whose lease ran out, and with a threshold those that were not renewed for so long."""
    return Requeued.of(await operator.requeue_stale(threshold_minutes))
