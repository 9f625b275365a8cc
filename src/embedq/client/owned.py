"""Which records are there for who asks for a tenant: others are as if they were not."""

from collections.abc import Sequence

from embedq.errors import NotFound
from embedq.model import RecordId
from embedq.policy.tenants import belongs, check_tenant
from embedq.ports import Reading

LOOK_AT = 1000  # records per look


async def owned(
    store: Reading, collection: str, ids: Sequence[RecordId], *, tenant: str | None, every: bool = False
) -> Sequence[RecordId]:
    """List those of these records that are the tenant's; NotFound for a single one that is not, or for any."""
    check_tenant(tenant)
    if tenant is None:
        return ids
    found = {
        record.id
        for start in range(0, len(ids), LOOK_AT)
        for record in await store.get(collection, ids[start : start + LOOK_AT])
        if belongs(record.tenant, tenant)
    }
    others = [id_ for id_ in ids if id_ not in found]
    if others and (every or len(ids) == 1):
        raise no_record(collection, others[0])
    return [id_ for id_ in ids if id_ in found]


def no_record(collection: str, id_: RecordId) -> NotFound:
    """Say that a record is not there, or not for who asks: in the same words."""
    return NotFound(f"no record {id_!r} in {collection!r}")
