"""Collections: declare, read, remove."""

from typing import Annotated

from fastapi import APIRouter, Query

from embedq import model
from embedq.api import requests, responses
from embedq.api.dependencies import TheChoices, TheClient
from embedq.api.parameters import MAX_PAGE, Cursor, Limit, Name, page
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.client import shown

router = APIRouter(tags=["collections"], route_class=StrictRoute)


@router.get("/collections", responses=documented())
async def list_collections(client: TheClient, limit: Limit = MAX_PAGE, cursor: Cursor = None) -> responses.Collections:
    """List the collections by name."""
    found = page(await client.collections(), limit=limit, cursor=cursor, key=lambda one: one.declaration.name)
    return responses.Collections(collections=[shaped(one) for one in found.items], next_cursor=found.next_cursor)


@router.put("/collections/{collection:segment}", responses=documented(400, 409, 507))
async def declare_collection(
    collection: Name, client: TheClient, choices: TheChoices, body: requests.NewCollection | None = None
) -> responses.Collection:
    """Declare a collection. The same declaration again changes nothing.

    Another `text_from` embeds again what changes by it. Another `embedder` over existing records is refused, and so is
    one that the operator has not allowed.
    """
    if body and body.embedder is not None:
        await choices.check(collection, body.embedder)
    asked = (body or requests.NewCollection()).model_dump(exclude_none=True)
    return shaped(await client.declare(collection, **asked))


@router.get("/collections/{collection:segment}", responses=documented(404))
async def read_collection(collection: Name, client: TheClient) -> responses.Collection:
    """Read a collection's declaration."""
    return shaped(await client.collection(collection))


@router.delete("/collections/{collection:segment}", responses=documented(404, 409, 507))
async def drop_collection(
    collection: Name,
    client: TheClient,
    confirm: Annotated[str, Query(max_length=512, description="The collection's name once more.")] = "",
) -> responses.Dropped:
    """Remove a collection with its records, vectors and jobs, for good."""
    await client.drop(collection, confirm=confirm)
    return responses.Dropped(name=collection)


def shaped(found: model.Collection) -> responses.Collection:
    """Write a collection the way it is declared."""
    return responses.Collection.model_validate(shown.collection(found))
