"""Liveness, readiness, metrics."""

from fastapi import APIRouter, Request, Response

from embedq import __version__
from embedq.api.dependencies import TheMetrics, TheOperator
from embedq.api.guard import TRUSTED
from embedq.api.problems import RETRY_SECONDS, documented
from embedq.api.route import StrictRoute
from embedq.errors import StoreError
from embedq.metrics import CONTENT_TYPE
from embedq.shapes.queue import Alive, Ready

router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get("/health")
async def health() -> Alive:
    """Say that the process answers. It reads nothing, and needs no key."""
    return Alive(version=__version__)


@router.get(
    "/health/ready",
    responses={503: {"model": Ready, "description": "Not ready"}},
    response_model_exclude_unset=True,
)
async def ready(request: Request, response: Response, operator: TheOperator) -> Ready:
    """Say whether the database answers and the fleet can work; those with a key are told more, and as it is now."""
    if request.scope.get(TRUSTED):
        found = Ready.of(await operator.health())
    else:
        found = Ready.bare(ready=await request.app.state.readiness.ready())
    if found.status != "ready":
        response.status_code = 503
        response.headers["Retry-After"] = RETRY_SECONDS
    return found


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **documented()})
async def metrics(operator: TheOperator, metrics: TheMetrics) -> Response:
    """Write everything that is counted, for Prometheus. A database in trouble is one of the facts."""
    try:
        status = await operator.status()
    except StoreError:
        status = None
    return Response(metrics.written(status), media_type=CONTENT_TYPE)
