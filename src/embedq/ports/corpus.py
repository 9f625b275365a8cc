"""Where records and their vectors live and are searched."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from embedq.attachment import Attached, Attachment
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

        Another `text_from` re-arms the records whose text changes. Another embedder over existing records: Conflict.
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
        """Fix a space's dimensions by its first good answer; answer with what is fixed."""
        ...


class Writing(Protocol):
    """The application's side: what is written arms jobs in the same breath."""

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Receipt]:
        """Write records and arm their jobs, all or none, on the caller's `connection` if given; receipts in order.

        Whoever calls has checked them (`policy.texts.problems_of`). What only the store knows is judged here: whether
        there is a text, how long one is that is made from attributes, and whose an id is.
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
        """Take records out of search and cancel their jobs; `purge` also removes text and vector for good.

        Answer with the records that were there; to a `tenant`, those of others are not. With the caller's `connection`
        it is part of the caller's transaction.
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
        """Arm jobs of live records: forced, or if the current text has no vector and no job on its way.

        A person's asking is as good as a revival: it arms what was cancelled or given up on. A job that is on its way
        keeps the higher priority. Unknown ids, and to a `tenant` those of others: NotFound.
        """
        ...


class Reading(Protocol):
    """What readers ask a corpus."""

    async def get(
        self, collection: str, records: Sequence[RecordId], *, with_vectors: bool = False, max_bytes: int | None = None
    ) -> Sequence[Record]:
        """Read live records that are there, in the order asked for, each once.

        Several with over `max_bytes` of text and attributes: TooLarge.
        """
        ...

    async def records(
        self,
        collection: str,
        *,
        status: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        max_bytes: int | None = None,
    ) -> Page[Record]:
        """List live records by the bytes of their ids, those of status pending or failed as they were first put.

        A page ends once it has `max_bytes` of text and attributes; the list goes on at `next_cursor`, None at its end.
        """
        ...

    async def search_vector(self, collection: str, vector: Vector, query: Query) -> Sequence[Hit]:
        """Find the nearest records by cosine; a filter never cuts below min(k, matches).

        A collection of another space than `query.space`: Conflict, since its vectors never meet the query's.
        """
        ...

    async def search_words(self, collection: str, words: str, query: Query) -> Sequence[Hit]:
        """Find records by words. The query is words, never syntax."""
        ...

    async def show(
        self, collection: str, records: Sequence[RecordId], *, max_bytes: int | None = None
    ) -> tuple[Sequence[Shown], Freshness]:
        """Read what an answer shows of live records, and how far vectors are behind, in one round trip.

        Records come in the order asked for; several with over `max_bytes` of text and attributes: TooLarge.
        """
        ...

    async def freshness(self, collection: str, *, now: datetime | None = None) -> Freshness:
        """Say how far vectors are behind."""
        ...


@runtime_checkable
class Attaching(Protocol):
    """A store that can take over tables which are already there."""

    async def attach(
        self, declaration: Declaration, attachment: Attachment, *, dimensions: int | None = None, adopt: bool = False
    ) -> Attached:
        """Make a table a collection, changes from now on and the rows that are there; the same again walks again.

        Something else than before alters the attachment: only texts that changed by it are embedded. To adopt is to
        take the vectors in the target column for those of the rows' texts as of now, without a call. What does not fit
        is refused with a reason, and then nothing is changed.
        """
        ...

    async def detach(self, collection: str) -> None:
        """Leave a table as it was, and drop its collection; vectors in the table's own column stay."""
        ...

    async def attached(self) -> Sequence[Attached]:
        """List the attached tables, by collection."""
        ...

    async def gather(self, *, limit: int = 1000) -> int:
        """Take over some of what attached tables have noted; 0 when there is nothing to do."""
        ...
