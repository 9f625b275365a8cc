"""Collections: declare, read, remove."""

from typing import Annotated

from fastapi import APIRouter, Query

from embedq import model
from embedq.api import answers, requests
from embedq.api.parameters import Name
from embedq.api.problems import documented
from embedq.api.rooms import TheClient
from embedq.api.strict import StrictRoute

router = APIRouter(tags=["collections"], route_class=StrictRoute)


@router.get("/collections", responses=documented())
async def list_collections(client: TheClient) -> answers.Collections:
    """List the collections by name."""
    return answers.Collections(collections=[shaped(found) for found in await client.collections()])


@router.put("/collections/{collection:segment}", responses=documented(409))
async def declare_collection(
    collection: Name, client: TheClient, body: requests.NewCollection | None = None
) -> answers.Collection:
    """Declare a collection. The same declaration again changes nothing.

    Another `text_from` embeds again what changes by it. Another `embedder` over existing records is refused.
    """
    asked = (body or requests.NewCollection()).model_dump(exclude_none=True)
    return shaped(await client.declare(collection, **asked))


@router.get("/collections/{collection:segment}", responses=documented(404))
async def read_collection(collection: Name, client: TheClient) -> answers.Collection:
    """Read a collection's declaration."""
    return shaped(await client.collection(collection))


@router.delete("/collections/{collection:segment}", responses=documented(404, 409))
async def drop_collection(
    collection: Name,
    client: TheClient,
    confirm: Annotated[str, Query(max_length=512, description="The collection's name once more.")] = "",
) -> answers.Dropped:
    """Remove a collection with its records, vectors and jobs, for good."""
    await client.drop(collection, confirm=confirm)
    return answers.Dropped(name=collection)


def shaped(found: model.Collection) -> answers.Collection:
    """Write a collection the way it is declared."""
    declared = found.declaration
    return answers.Collection(
        name=declared.name,
        text_from=None if declared.text_from is None else list(declared.text_from),
        embedder=str(declared.embedder),
        space=str(found.space),
        dimensions=found.space.dimensions,
        priority=answers.named(declared.priority),
        retry=answers.RetryPolicy(
            base_seconds=declared.retry.base.total_seconds(),
            factor=declared.retry.factor,
            cap_seconds=declared.retry.cap.total_seconds(),
            jitter=declared.retry.jitter,
            max_attempts=declared.retry.max_attempts,
        ),
        created_at=found.created_at,
    )
