"""Records of a tenant: those of others are treated as if they did not exist."""

from collections.abc import Sequence

from embedq.errors import NotFound
from embedq.model import RecordId
from embedq.policy.tenants import belongs
from embedq.ports import Reading

LOOK_AT = 1000  # records per query


async def check_owned(store: Reading, collection: str, ids: Sequence[RecordId], *, tenant: str | None) -> None:
    """Raise NotFound if one of these records is not the tenant's. The write checks it again."""
    for start in range(0, len(ids) if tenant is not None else 0, LOOK_AT):
        some = ids[start : start + LOOK_AT]
        found = {record.id for record in await store.get(collection, some) if belongs(record.tenant, tenant)}
        for id_ in some:
            if id_ not in found:
                raise no_record(collection, id_)


def no_record(collection: str, id_: str) -> NotFound:
    """Build the error for a record that does not exist or is another tenant's: the message is the same."""
    return NotFound(f"no record {id_!r} in {collection!r}")
