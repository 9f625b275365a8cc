"""Collections: declare, read, remove."""

from typing import Annotated

from fastapi import APIRouter, Query

from embedq.api import requests
from embedq.api.dependencies import TheChoices, TheClient
from embedq.api.parameters import MAX_PAGE, Cursor, Limit, Name, page
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.shapes.collections import Collection, Collections, Dropped

router = APIRouter(tags=["collections"], route_class=StrictRoute)


@router.get("/collections", responses=documented())
async def list_collections(client: TheClient, limit: Limit = MAX_PAGE, cursor: Cursor = None) -> Collections:
    """List the collections by name."""
    found = page(await client.collections(), limit=limit, cursor=cursor, key=lambda one: one.declaration.name)
    return Collections.of(found)


@router.put("/collections/{collection:segment}", responses=documented(400, 409, 507))
async def declare_collection(
    collection: Name, client: TheClient, choices: TheChoices, body: requests.NewCollection | None = None
) -> Collection:
    """Declare a collection. The same declaration again changes nothing.

    Another `text_from` embeds again what changes by it. Another `embedder` over existing records is refused, and so is
    one that the operator has not allowed.
    """
    if body and body.embedder is not None:
        await choices.check(collection, body.embedder)
    asked = (body or requests.NewCollection()).model_dump(exclude_none=True)
    return Collection.of(await client.declare(collection, **asked))


@router.get("/collections/{collection:segment}", responses=documented(404))
async def read_collection(collection: Name, client: TheClient) -> Collection:
    """Read a collection's declaration."""
    return Collection.of(await client.collection(collection))


@router.delete("/collections/{collection:segment}", responses=documented(404, 409, 507))
async def drop_collection(
    collection: Name,
    client: TheClient,
    confirm: Annotated[str, Query(max_length=512, description="The collection's name once more.")] = "",
) -> Dropped:
    """Remove a collection with its records, vectors and jobs, for good."""
    await client.drop(collection, confirm=confirm)
    return Dropped(name=collection)
