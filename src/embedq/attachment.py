"""Types for tables that are collections."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """An application's table that is a collection. All fields are names; only `priority` is SQL."""

    table: str  # a name, or SCHEMA.NAME
    key: tuple[str, ...]
    text: tuple[str, ...]  # columns, joined in order
    into: str | None = None  # a vector column of the table that vectors are copied into
    priority: str | None = None  # an SQL expression over a row: urgent, high, normal or low
    tenant: str | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """An attachment and its progress."""

    collection: str
    attachment: Attachment
    rows: int  # estimated when the walk over the table began
    seen: int  # of them, by the walk
    walking: bool
    noted: int  # changed rows that are still to be read
    refused: Mapping[str, str]  # some keys of rows that cannot be records, and why
    refusals: int  # how many there are
    problem: str | None
    given_up: int = 0  # rows that refused their vectors too often
    adopted: int = 0  # rows whose existing vectors were taken over
    row_security: bool = False  # of the table; it does not apply to the copy
    trusts: str | None = None  # the table's owner, if its triggers and types run with another role's rights
