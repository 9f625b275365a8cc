"""The nouns of tables that are collections."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A table of the application's that is a collection. Names are names; only `priority` is SQL."""

    table: str  # a name, or SCHEMA.NAME
    key: tuple[str, ...]
    text: tuple[str, ...]  # columns, joined in order
    into: str | None = None  # a vector column of the table that vectors are copied into
    priority: str | None = None  # an SQL expression over a row: urgent, high, normal or low
    tenant: str | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """An attachment as it stands."""

    collection: str
    attachment: Attachment
    rows: int  # about as many there were when the walk over the table began
    seen: int  # of them, by the walk
    walking: bool
    noted: int  # changed rows that are still to be looked at
    refused: Mapping[str, str]  # some keys whose rows cannot be records, and why
    refusals: int  # how many there are
    problem: str | None
    given_up: int = 0  # rows that refused their vectors too often
    adopted: int = 0  # rows whose own vectors were taken for those of their texts
    row_security: bool = False  # of the table; it does not hold for the copy
    trusts: str | None = None  # the table's owner, if its triggers and types run with another role's rights
