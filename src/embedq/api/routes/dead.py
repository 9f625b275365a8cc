"""Dead letters: list, group by cause, replay."""

from typing import Annotated

from fastapi import APIRouter, Query

from embedq.api import requests
from embedq.api.dependencies import TheOperator
from embedq.api.parameters import Cursor, JobPath, Limit, OfCollection, OfTenant
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.model import JobFilter, JobStatus, Reason
from embedq.operator import DeadReason
from embedq.shapes.jobs import DeadPage, DeadStats, Job
from embedq.shapes.queue import Replayed

router = APIRouter(prefix="/admin/dead", tags=["dead letters"], route_class=StrictRoute)


@router.get("", responses=documented(404))
async def list_dead(
    operator: TheOperator,
    collection: OfCollection = None,
    reason: Annotated[DeadReason | None, Query(description="Only those that ended so.")] = None,
    tenant: OfTenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> DeadPage:
    """List dead letters with what went wrong."""
    why = None if reason is None else Reason(reason)
    page = await operator.dead(collection=collection, reason=why, tenant=tenant, limit=limit, cursor=cursor)
    return DeadPage.of(page)


@router.get("/stats", responses=documented())
async def dead_stats(operator: TheOperator, tenant: OfTenant = None) -> DeadStats:
    """Group dead letters by their causes."""
    return DeadStats.of(await operator.dead_stats(tenant=tenant))


@router.post("/{id:segment}/replay", responses=documented(404, 409, 507))
async def replay_one(id: JobPath, operator: TheOperator, tenant: OfTenant = None) -> Job:  # noqa: A002 the API's own name
    """Arm one failed or cancelled job again."""
    return Job.of(await operator.replay(id, tenant=tenant))


@router.post("/replay", responses=documented(400, 404, 507))
async def replay_many(operator: TheOperator, body: requests.Replay | None = None) -> Replayed:
    """Arm dead letters again, by collection and reason if given."""
    which = body or requests.Replay()
    why = None if which.reason is None else Reason(which.reason)
    dead = JobFilter(status=JobStatus.FAILED, collection=which.collection, reason=why, tenant=which.tenant)
    return Replayed.of(await operator.replay_all(dead))
