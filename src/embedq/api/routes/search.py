"""Search: one route, and the answer says how it was found."""

from fastapi import APIRouter

from embedq.api import requests
from embedq.api.dependencies import TheClient
from embedq.api.parameters import Name
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.shapes.search import Found

router = APIRouter(tags=["search"], route_class=StrictRoute)


@router.post("/collections/{collection:segment}/search", responses=documented(400, 404, 507))
async def search(collection: Name, body: requests.Search, client: TheClient) -> Found:
    """Find records by meaning, by words, or both.

    Where no query vector can be had, `auto` and `hybrid` answer by words and say why; `semantic` answers 503.
    """
    found = await client.search(
        collection, body.query, k=body.k, mode=body.mode, filter=body.filter, tenant=body.tenant
    )
    return Found.of(found)
