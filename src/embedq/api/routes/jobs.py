"""Embedding jobs: create, read, list, cancel."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from embedq.api import requests
from embedq.api.dependencies import TheClient, TheOperator
from embedq.api.parameters import Cursor, JobPath, Limit, OfCollection, OfTenant
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.model import JobFilter, JobStatus
from embedq.shapes.jobs import Job, JobPage
from embedq.shapes.records import Receipt

router = APIRouter(tags=["jobs"], route_class=StrictRoute)
NOTHING_TO_DO = {"model": Receipt, "description": "The vector is current and no job is there: nothing to do"}


@router.post(
    "/jobs/embedding",
    status_code=201,
    response_model=Job | Receipt,
    responses={200: NOTHING_TO_DO, **documented(400, 404, 507)},
)
async def create_job(
    body: requests.NewJob, client: TheClient, operator: TheOperator, response: Response
) -> Job | Receipt:
    """Give a record a job. One that is queued already is answered with as it is."""
    receipt = await client.enqueue(
        body.collection, body.record_id, force=body.force, priority=body.priority, tenant=body.tenant
    )
    if receipt.job_id is None:
        response.status_code = 200
        return Receipt.of(receipt)
    return Job.of(await operator.job(receipt.job_id))


@router.get("/jobs/embedding", responses=documented(404))
async def list_jobs(
    operator: TheOperator,
    status: Annotated[JobStatus | None, Query(description="`retrying`: pending, with failures behind it.")] = None,
    collection: OfCollection = None,
    tenant: OfTenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> JobPage:
    """List jobs."""
    which = JobFilter(status=status, collection=collection, tenant=tenant)
    page = await operator.jobs(which, limit=limit, cursor=cursor)
    return JobPage.of(page)


@router.get("/jobs/embedding/{id:segment}", responses=documented(404))
async def read_job(id: JobPath, operator: TheOperator, tenant: OfTenant = None) -> Job:  # noqa: A002 the API's own name
    """Read a job."""
    return Job.of(await operator.job(id, tenant=tenant))


@router.delete("/jobs/embedding/{id:segment}", responses=documented(404, 409, 507))
async def cancel_job(id: JobPath, operator: TheOperator, tenant: OfTenant = None) -> Job:  # noqa: A002 the API's own name
    """Cancel a job that is pending or processing."""
    return Job.of(await operator.cancel(id, tenant=tenant))
