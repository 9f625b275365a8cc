"""What a filter asks of a record's attributes: a small closed tree. `policy.filters` reads it, stores compile it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

Path = tuple[str, ...]  # the names that lead from a record's attributes to a value; a list on the way is its items
Scalar = str | int | float | bool | None
Operand = str | int | float | datetime  # of a comparison; a datetime is aware


class Order(StrEnum):
    """How a value compares with an operand."""

    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value equals one of these, or is a list of which an item does."""

    path: Path
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """The value is of the operands' kind and within all bounds, or is a list of which one item is."""

    path: Path
    bounds: tuple[tuple[Order, Operand], ...]  # at least one, all of one kind: numbers, texts or moments


@dataclass(frozen=True, slots=True)
class Exists:
    """There is a value, even if it is null."""

    path: Path


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: "Filter"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: "tuple[Filter, ...]"


Filter = OneOf | Within | Exists | Not | AllOf | AnyOf  # closed: every `match` on it ends in assert_never


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The next records, by the bytes of their ids, that a filter allows."""

    filter: Filter
    tenant: str | None = None
    after: str = ""  # the id of the last one before them
    limit: int = 1000
