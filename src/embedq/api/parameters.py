"""Path and query parameters that several routes share."""

from typing import Annotated

from fastapi import Path, Query

Name = Annotated[str, Path(description="The collection.", examples=["notes"])]
RecordPath = Annotated[str, Path(description="The record's id, percent-encoded, slashes too.", examples=["n1"])]
JobPath = Annotated[str, Path(description="The job's id.", max_length=512)]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=4096, description="The `next_cursor` of the page before.")]
OfTenant = Annotated[
    str | None,
    Query(max_length=512, description="Only this tenant's; what is another's answers as if it were not there."),
]
OfCollection = Annotated[str | None, Query(max_length=512, description="Only this collection.")]
