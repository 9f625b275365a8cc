"""The fleet's registry."""

from fastapi import APIRouter

from embedq.api import requests
from embedq.api.dependencies import TheOperator
from embedq.api.parameters import MAX_PAGE, Cursor, JobPath, Limit, page
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.model import HealthReport
from embedq.shapes.fleet import Beaten, FleetPage, Registered

router = APIRouter(tags=["workers"], route_class=StrictRoute)


@router.post("/workers/register", status_code=201, responses=documented(400, 409, 507))
async def register_worker(operator: TheOperator, body: requests.NewWorker | None = None) -> Registered:
    """Enter a worker that runs elsewhere. The id of one of embedq's own is refused."""
    info = await operator.register(**(body or requests.NewWorker()).model_dump())
    return Registered(id=info.id)


@router.post("/workers/{id:segment}/heartbeat", responses=documented(400, 404, 507))
async def beat(id: JobPath, operator: TheOperator, body: requests.Heartbeat | None = None) -> Beaten:  # noqa: A002 the API's own name
    """Note that a worker is alive, and its health. What is CRITICAL for it counts as DEGRADED for the fleet."""
    report = HealthReport(**(body or requests.Heartbeat()).model_dump())
    await operator.beat(id, report)
    return Beaten(id=id)


@router.get("/workers", responses=documented())
async def list_workers(operator: TheOperator, limit: Limit = MAX_PAGE, cursor: Cursor = None) -> FleetPage:
    """List the workers that were seen within a day, by their ids. The figures are those of all of them."""
    workers = await operator.workers()
    some = page(workers, limit=limit, cursor=cursor, key=lambda worker: worker.info.id)
    return FleetPage.of_page(some, workers)
