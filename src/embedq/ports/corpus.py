"""Stores and searches records and their vectors."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from embedq.attachment import Attached, Attachment
from embedq.conditions import Filter, Selection
from embedq.model import (
    Collection,
    Declaration,
    Freshness,
    Hit,
    NewRecord,
    Page,
    Patch,
    Query,
    Receipt,
    Record,
    RecordId,
    Shown,
    Space,
    SpaceId,
    Vector,
)


class Declaring(Protocol):
    """The collections of a corpus."""

    async def declare(self, declaration: Declaration, *, now: datetime | None = None) -> Collection:
        """Declare a collection; the same declaration again changes nothing.

        A new `text_from` re-arms the records whose text changes. A new embedder over existing records: Conflict.
        """
        ...

    async def collections(self) -> Sequence[Collection]:
        """List the collections by name."""
        ...

    async def drop(self, collection: str, *, now: datetime | None = None) -> None:
        """Remove a collection with its records, vectors and jobs."""
        ...

    async def spaces(self) -> Sequence[Space]:
        """List the spaces that collections use."""
        ...

    async def learn(self, space: SpaceId, dimensions: int) -> int:
        """Fix a space's dimensions by its first valid answer; return the fixed value."""
        ...


class Writing(Protocol):
    """The application's side: a write also arms its jobs."""

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Receipt]:
        """Write records and arm their jobs, all or none, on the caller's `connection` if given; receipts in order.

        The caller has checked them (`policy.texts.problems_of`). The store checks what only it knows: whether there is
        a text, the length of a text made from attributes, and the tenant of an id.
        """
        ...

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Receipt:
        """Merge a change into a live record; arm its job only if the text changed."""
        ...

    async def delete(
        self,
        collection: str,
        records: Sequence[RecordId],
        *,
        purge: bool = False,
        tenant: str | None = None,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[RecordId]:
        """Take records out of search and cancel their jobs; `purge` also erases text and vector.

        Return the records that existed; for a `tenant`, those of others do not. With the caller's `connection` it is
        part of the caller's transaction.
        """
        ...

    async def delete_where(
        self, collection: str, which: Selection, *, purge: bool = False, now: datetime | None = None
    ) -> Page[RecordId]:
        """Delete some of the records that a filter allows, each only if it still does when it is deleted.

        In one transaction, as `delete` does: `purge` also erases those that were deleted before. The cursor is what to
        go on after; None: that were all.
        """
        ...

    async def enqueue(
        self,
        collection: str,
        records: Sequence[RecordId],
        *,
        force: bool = False,
        job_priority: int | None = None,
        tenant: str | None = None,
        now: datetime | None = None,
    ) -> Sequence[Receipt]:
        """Arm jobs of live records: forced, or if the current text has neither a vector nor an open job.

        Like a revival it arms what was cancelled or given up. An open job keeps the higher priority. Unknown ids,
        and for a `tenant` those of others: NotFound.
        """
        ...


class Reading(Protocol):
    """The reader's side of a corpus."""

    async def get(
        self, collection: str, records: Sequence[RecordId], *, with_vectors: bool = False, max_bytes: int | None = None
    ) -> Sequence[Record]:
        """Read live records in the order requested, each once; missing ones are left out.

        Several with over `max_bytes` of text and attributes: TooLarge.
        """
        ...

    async def records(
        self,
        collection: str,
        *,
        status: str | None = None,
        tenant: str | None = None,
        wanted: Filter | None = None,
        limit: int = 100,
        cursor: str | None = None,
        max_bytes: int | None = None,
    ) -> Page[Record]:
        """List live records by the bytes of their ids; with status pending or failed in the order they were first put.

        A page ends once it has `max_bytes` of text and attributes; `next_cursor` is None at the end of the list.
        """
        ...

    async def search_vector(self, collection: str, vector: Vector, query: Query) -> Sequence[Hit]:
        """Find the nearest records by cosine; a filter never cuts below min(k, matches).

        A collection of another space than `query.space`: Conflict, since vectors of two spaces are never compared.
        """
        ...

    async def search_words(self, collection: str, words: str, query: Query) -> Sequence[Hit]:
        """Find records by words. The query has no syntax."""
        ...

    async def show(
        self, collection: str, records: Sequence[RecordId], *, max_bytes: int | None = None
    ) -> tuple[Sequence[Shown], Freshness]:
        """Read text and attributes of live records for an answer, and the freshness, in one round trip.

        Records are in the order requested; several with over `max_bytes` of text and attributes: TooLarge.
        """
        ...

    async def freshness(self, collection: str, *, now: datetime | None = None) -> Freshness:
        """Say how far vectors are behind."""
        ...


@runtime_checkable
class Attaching(Protocol):
    """A store that can follow existing tables."""

    async def attach(
        self, declaration: Declaration, attachment: Attachment, *, dimensions: int | None = None, adopt: bool = False
    ) -> Attached:
        """Make a table a collection: its existing rows and every later change; a repeated call walks the rows again.

        Other options alter the attachment: only texts that change are embedded. `adopt` trusts that the vectors in the
        target column are those of the rows' current texts, without a call. What does not fit is refused with a reason,
        and nothing is changed.
        """
        ...

    async def detach(self, collection: str) -> None:
        """Remove the triggers from a table, and drop its collection; vectors in the table's own column stay."""
        ...

    async def attached(self) -> Sequence[Attached]:
        """List the attached tables, by collection."""
        ...

    async def gather(self, *, limit: int = 1000) -> int:
        """Process some noted changes of attached tables; 0 when there is nothing to do."""
        ...
