"""Which records are there for who asks for a tenant: others are as if they were not."""

from collections.abc import Sequence

from embedq.errors import NotFound
from embedq.model import RecordId
from embedq.policy.tenants import belongs
from embedq.ports import Reading

LOOK_AT = 1000  # records per look


async def check_owned(store: Reading, collection: str, ids: Sequence[RecordId], *, tenant: str | None) -> None:
    """Refuse to go on if one of these records is not the tenant's. What changes them compares it once more."""
    for start in range(0, len(ids) if tenant is not None else 0, LOOK_AT):
        some = ids[start : start + LOOK_AT]
        found = {record.id for record in await store.get(collection, some) if belongs(record.tenant, tenant)}
        for id_ in some:
            if id_ not in found:
                raise no_record(collection, id_)


def no_record(collection: str, id_: RecordId) -> NotFound:
    """Say that a record is not there, or not for who asks: in the same words."""
    return NotFound(f"no record {id_!r} in {collection!r}")
