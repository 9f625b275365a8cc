"""Kinds of fields that several shapes have."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel

from embedq.model import Priority

PriorityName = Literal["urgent", "high", "normal", "low"]
Moment = Annotated[datetime, AfterValidator(lambda moment: moment.astimezone(UTC))]  # so that it is written with a Z
LANES: dict[Priority, PriorityName] = {
    Priority.URGENT: "urgent",
    Priority.HIGH: "high",
    Priority.NORMAL: "normal",
    Priority.LOW: "low",
}


class Tally(BaseModel):
    """A count, in all and per collection."""

    total: int
    by_collection: dict[str, int]
