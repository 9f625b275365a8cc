"""Collections, declared or attached."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, Field

from embedq import attachment, model
from embedq.shapes.fields import LANES, Moment, PriorityName

DECLARABLE = ("text_from", "embedder", "priority", "retry", "language")


class RetryPolicy(BaseModel):
    """How long a job waits after a failure, and how often it may fail."""

    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: float
    max_attempts: int

    @classmethod
    def of(cls, retry: model.RetryPolicy) -> Self:
        """Show a retry policy."""
        return cls(
            base_seconds=retry.base.total_seconds(),
            factor=retry.factor,
            cap_seconds=retry.cap.total_seconds(),
            jitter=retry.jitter,
            max_attempts=retry.max_attempts,
        )


class Collection(BaseModel):
    """A declared collection."""

    name: str
    text_from: list[str] | None
    embedder: str
    space: str
    dimensions: int | None = Field(description="null: not known before the first vector.")
    priority: PriorityName
    retry: RetryPolicy
    language: str = Field(description="By which words are stemmed; simple: not at all.")
    created_at: Moment

    @classmethod
    def of(cls, collection: model.Collection) -> Self:
        """Show a collection the way it is declared."""
        declared = collection.declaration
        return cls(
            name=declared.name,
            text_from=None if declared.text_from is None else list(declared.text_from),
            embedder=str(declared.embedder),
            space=str(collection.space),
            dimensions=collection.space.dimensions,
            priority=LANES[declared.priority],
            retry=RetryPolicy.of(declared.retry),
            language=declared.language,
            created_at=collection.created_at,
        )


class Declared(Collection):
    """A collection, and what declaring it did."""

    status: Literal["created", "changed", "unchanged"]
    changed: list[str] = Field(description="The fields that have another value now.")

    @classmethod
    def after(cls, before: model.Collection | None, now: model.Collection) -> Self:
        """Compare a collection with what it was; None: it is new."""
        shown = dict(Collection.of(now))
        old = shown if before is None else dict(Collection.of(before))
        changed = [name for name in DECLARABLE if old[name] != shown[name]]
        did = ("changed" if changed else "unchanged") if before else "created"
        return cls.model_validate({**shown, "status": did, "changed": changed})


class Collections(BaseModel):
    """Some collections by name, and where the list goes on."""

    collections: list[Collection]
    next_cursor: str | None

    @classmethod
    def of(cls, page: model.Page[model.Collection]) -> Self:
        """Show a page of collections."""
        return cls(collections=[Collection.of(found) for found in page.items], next_cursor=page.next_cursor)


class Dropped(BaseModel):
    """A collection that is gone."""

    name: str
    deleted: bool = True


class RefusedRows(BaseModel):
    """Rows that cannot be records."""

    count: int
    some: dict[str, str] = Field(description="Some of their keys, and why.")


class Attached(BaseModel):
    """An attached table and how far it is."""

    collection: str
    table: str
    key: list[str]
    text: list[str]
    into: str | None
    priority: str | None
    tenant: str | None
    attributes: list[str]
    rows: int
    seen: int
    walking: bool
    noted: int
    refused: RefusedRows
    given_up: int
    adopted: int
    problem: str | None
    row_security: bool
    trusts: str | None

    @classmethod
    def of(cls, found: attachment.Attached) -> Self:
        """Show an attached table."""
        table = found.attachment
        return cls(
            collection=found.collection,
            table=table.table,
            key=list(table.key),
            text=list(table.text),
            into=table.into,
            priority=table.priority,
            tenant=table.tenant,
            attributes=list(table.attributes),
            rows=found.rows,
            seen=found.seen,
            walking=found.walking,
            noted=found.noted,
            refused=RefusedRows(count=found.refusals, some=dict(found.refused)),
            given_up=found.given_up,
            adopted=found.adopted,
            problem=found.problem,
            row_security=found.row_security,
            trusts=found.trusts,
        )


class AttachedTables(BaseModel):
    """All attached tables, by collection."""

    tables: list[Attached]

    @classmethod
    def of(cls, found: Sequence[attachment.Attached]) -> Self:
        """Show attached tables."""
        return cls(tables=[Attached.of(one) for one in found])


class Detached(BaseModel):
    """A table that is no collection any more."""

    collection: str
    status: Literal["detached"] = "detached"
