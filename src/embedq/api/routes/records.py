"""Records: write, read, change, delete, embed again."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query
from pydantic import SkipValidation

from embedq.api import requests
from embedq.api.dependencies import TheClient
from embedq.api.parameters import Cursor, Limit, Name, OfTenant, RecordPath, Where, read_filter
from embedq.api.problems import documented
from embedq.api.route import StrictRoute
from embedq.client.owned import no_record
from embedq.errors import Invalid
from embedq.model import EmbeddingStatus
from embedq.shapes.records import Deleted, DeletedBy, Receipt, Receipts, Record, RecordPage, RecordWithVector

router = APIRouter(tags=["records"], route_class=StrictRoute)

# Not validated here: the client checks records and names every bad one by its position.
Records = Annotated[
    SkipValidation[requests.NewRecords | requests.NewRecord],
    Body(
        openapi_examples={
            "one": {"value": {"id": "n1", "text": "Call Ada about the loom"}},
            "many": {"value": {"records": [{"id": "n1", "text": "Call Ada", "attributes": {"kind": "call"}}]}},
        }
    ),
]
Purge = Annotated[bool, Query(description="Remove text and vector for good.")]
Changes = Annotated[SkipValidation[requests.Change], Body()]


@router.post("/collections/{collection:segment}/records", status_code=201, responses=documented(400, 404, 409, 507))
async def put_records(collection: Name, body: Records, client: TheClient) -> Receipts | Receipt:
    """Write one record, or up to 1,000 at once: all or none. Their vectors follow in the background.

    The first write to an undeclared collection declares it with defaults. The same text again queues nothing.
    """
    batch, single = _read(body)
    receipts = [Receipt.of(receipt) for receipt in await client.put(collection, batch)]
    return receipts[0] if single else Receipts(records=receipts)


@router.get("/collections/{collection:segment}/records", responses=documented(404))
async def list_records(
    collection: Name,
    client: TheClient,
    embedding_status: Annotated[EmbeddingStatus | None, Query(description="Only records that stand so.")] = None,
    filter: Where = None,  # noqa: A002 the API's own name
    tenant: OfTenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> RecordPage:
    """List records."""
    wanted = read_filter(filter)
    page = await client.records(
        collection, status=embedding_status, filter=wanted, tenant=tenant, limit=limit, cursor=cursor
    )
    return RecordPage.of(page)


@router.delete("/collections/{collection:segment}/records", responses=documented(404, 409, 507))
async def delete_records(
    collection: Name,
    client: TheClient,
    filter: Where = None,  # noqa: A002 the API's own name
    purge: Purge = False,  # noqa: FBT002 a query parameter has a name
    tenant: OfTenant = None,
) -> DeletedBy:
    """Take all records that a filter allows out of search and cancel their jobs, step by step.

    An empty filter is refused. It can be repeated: what failed on the way is done then.
    """
    deleted = await client.delete_where(collection, read_filter(filter), purge=purge, tenant=tenant)
    return DeletedBy(deleted=deleted, purged=purge)


@router.get(
    "/collections/{collection:segment}/records/{id:segment}",
    responses=documented(404),
    response_model=RecordWithVector,
    response_model_exclude_unset=True,
)
async def read_record(
    collection: Name,
    id: RecordPath,  # noqa: A002 the API's own name
    client: TheClient,
    include: Annotated[Literal["vector"] | None, Query(description="What to add to the record.")] = None,
    tenant: OfTenant = None,
) -> Record:
    """Read a record and how its embedding stands."""
    record = await client.get(collection, id, with_vector=include == "vector", tenant=tenant)
    return (Record if include is None else RecordWithVector).of(record)


@router.patch("/collections/{collection:segment}/records/{id:segment}", responses=documented(400, 404, 409, 507))
async def patch_record(
    collection: Name,
    id: RecordPath,  # noqa: A002 the API's own name
    body: Changes,
    client: TheClient,
    tenant: OfTenant = None,
) -> Receipt:
    """Merge a change into a record. It is embedded again only if its text changed."""
    changes: Any = body
    return Receipt.of(await client.patch(collection, id, changes, tenant=tenant))


@router.delete("/collections/{collection:segment}/records/{id:segment}", responses=documented(404, 507))
async def delete_record(
    collection: Name,
    id: RecordPath,  # noqa: A002 the API's own name
    client: TheClient,
    purge: Purge = False,  # noqa: FBT002 a query parameter has a name
    tenant: OfTenant = None,
) -> Deleted:
    """Take a record out of search at once and cancel its job. A later write of the id brings it back."""
    if not await client.delete(collection, [id], purge=purge, tenant=tenant):
        raise no_record(collection, id)
    return Deleted(id=id, purged=purge)


@router.post(
    "/collections/{collection:segment}/records/{id:segment}/regenerate", status_code=202, responses=documented(404, 507)
)
async def regenerate_record(
    collection: Name,
    id: RecordPath,  # noqa: A002 the API's own name
    client: TheClient,
    tenant: OfTenant = None,
) -> Receipt:
    """Embed a record again, even if its vector is current. The old vector serves until then."""
    return Receipt.of(await client.regenerate(collection, id, tenant=tenant))


def _read(body: Any) -> tuple[list[Any], bool]:  # noqa: ANN401 unchecked input
    """Distinguish one record from a batch."""
    if not isinstance(body, dict) or "records" not in body:
        return [body], True
    if unknown := sorted(body.keys() - {"records"}):
        raise Invalid(f"a batch has no field {unknown[0][:64]!r} beside `records`")
    if not isinstance(body["records"], list):
        raise Invalid(f"`records` must be a list, not {type(body['records']).__name__}")
    return body["records"], False
