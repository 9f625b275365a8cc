"""Search, whose answer says how it was found; and vectors for those who search by themselves."""

from fastapi import APIRouter

from embedq.api import requests
from embedq.api.dependencies import TheChoices, TheClient
from embedq.api.parameters import Name
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.shapes.search import Found, Vectors

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


@router.post("/embed", responses=documented(400, 404, 507))
async def embed(body: requests.Texts, client: TheClient, choices: TheChoices) -> Vectors:
    """Embed texts, such as the query of your own SQL. Nothing is stored.

    They are embedded as a collection's embedder does, or as the one that is named; 503 says why it cannot answer.
    """
    if body.embedder is not None:
        await choices.check(body.collection, body.embedder)
    texts = [body.text] if body.text is not None else body.texts or []
    found = await client.embed(texts, collection=body.collection, embedder=body.embedder, purpose=body.purpose)
    return Vectors.of(found)
