"""What happens to a batch before it is put."""

from collections.abc import Sequence

from embedq.client import intake
from embedq.client.catalogue import Catalogue
from embedq.client.intake import RecordLike
from embedq.errors import Invalid, NotFound
from embedq.model import NewRecord
from embedq.policy.texts import Limits


async def read_batch(
    catalogue: Catalogue, collection: str, records: Sequence[RecordLike], limits: Limits
) -> list[NewRecord]:
    """Parse a batch, or refuse it with all its problems."""
    try:
        return intake.read_records(records, limits)
    except Invalid as refused:
        if not refused.problems:
            raise
        raise intake.with_textless(refused, records, await catalogue.text_from(collection)) from None


async def needs_declaring(catalogue: Catalogue, name: str, batch: Sequence[NewRecord], *, may: bool) -> bool:
    """Say whether a collection must be declared by its first batch, which is checked: a refused one declares nothing.

    Where a put may not declare one, a collection that there is not: NotFound.
    """
    catalogue.forget(name)
    try:
        await catalogue.look_up(name)
    except NotFound:
        intake.check_texts(batch, None)
        if catalogue.strict or not may:
            raise
        return True
    return False
