"""Path and query parameters that several routes share."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Path, Query

from embedq.api.requests import NO_CONTROLS
from embedq.errors import Invalid
from embedq.model import Page
from embedq.policy.filters import read_json
from embedq.policy.texts import MAX_ID_BYTES, MAX_NAME_BYTES

T = TypeVar("T")
MAX_PAGE = 1000
Name = Annotated[
    str,
    Path(
        description="The collection.",
        examples=["notes"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_NAME_BYTES, "pattern": NO_CONTROLS},
    ),
]
RecordPath = Annotated[
    str,
    Path(
        description="The record's id, percent-encoded, slashes too.",
        examples=["n1"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_ID_BYTES, "pattern": NO_CONTROLS},
    ),
]
JobPath = Annotated[str, Path(description="The job's id.", max_length=512)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=4096, description="The `next_cursor` of the page before.")]
OfTenant = Annotated[
    str | None,
    Query(max_length=512, description="Only this tenant's; what is another's answers as if it were not there."),
]
Where = Annotated[
    str | None,
    Query(
        max_length=8192,
        description="Only records that this filter allows: JSON, as the `filter` of a search.",
        examples=['{"year": {"gte": 1843}}'],
    ),
]
OfCollection = Annotated[str | None, Query(max_length=512, description="Only this collection.")]


def read_filter(written: str | None) -> dict[str, Any]:
    """Read a filter that is a parameter."""
    if written is None:
        return {}
    try:
        return read_json(written)
    except Invalid:
        raise
    except (ValueError, RecursionError) as error:
        raise Invalid('filter must be a JSON object, percent-encoded, such as {"year": 1843}') from error


def page(items: Sequence[T], *, limit: int, cursor: str | None, key: Callable[[T], str]) -> Page[T]:
    """Slice a page out of a complete list, ordered by `key`, which is also the cursor."""
    rest = sorted((item for item in items if cursor is None or key(item) > cursor), key=key)
    return Page(rest[:limit], key(rest[limit - 1]) if len(rest) > limit else None)
