"""The methods of `Client` without asyncio. Made by tools/generate_sync.py: not to be edited."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedq.client.client import Client
from embedq.client.intake import PriorityLike, RecordLike
from embedq.embedding import Purpose, TextVectors
from embedq.model import (
    Answer,
    Collection,
    EmbedderName,
    EmbeddingStatus,
    NewRecord,
    Page,
    Receipt,
    Record,
    RecordId,
    RetryPolicy,
    SearchMode,
)
from embedq.sync.portal import Portal


class SyncClient:
    """Writes records, reads them, and finds them by meaning and by words."""

    def __init__(self, asynchronous: Client, portal: Portal) -> None:
        """Run its methods on this portal, and wait for them."""
        self._async = asynchronous
        self._portal = portal

    def check(self, collection: str, records: Sequence[RecordLike]) -> list[NewRecord]:
        """Refuse what `put` would refuse, without writing; return the parsed records."""
        return self._portal.run(self._async.check, collection, records)

    def put(
        self, collection: str, records: Sequence[RecordLike], *, connection: object | None = None
    ) -> Sequence[Receipt]:
        """Write records and arm their jobs, all or none; one receipt per record, in order.

        The first put to an undeclared collection declares it with defaults, unless the settings are strict. With the
        caller's `connection` the write becomes part of the caller's transaction; the collection must exist then.
        """
        return self._portal.run(self._async.put, collection, records, connection=connection)

    def get(self, collection: str, id: str, *, with_vector: bool = False, tenant: str | None = None) -> Record:
        """Read one live record."""
        return self._portal.run(self._async.get, collection, id, with_vector=with_vector, tenant=tenant)

    def records(
        self,
        collection: str,
        *,
        status: EmbeddingStatus | str | None = None,
        tenant: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Record]:
        """List live records by embedding status, tenant and filter; a page of long texts has fewer than `limit`."""
        return self._portal.run(
            self._async.records, collection, status=status, tenant=tenant, filter=filter, limit=limit, cursor=cursor
        )

    def patch(self, collection: str, id: str, changes: Mapping[str, Any], *, tenant: str | None = None) -> Receipt:
        """Merge a change into a live record; it is embedded again only if its text changed."""
        return self._portal.run(self._async.patch, collection, id, changes, tenant=tenant)

    def delete(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        purge: bool = False,
        tenant: str | None = None,
        connection: object | None = None,
    ) -> Sequence[RecordId]:
        """Take records out of search and cancel their jobs; return the ids that existed.

        `purge` also erases text and vector. An id that does not exist changes nothing, so a delete can be repeated.
        With the caller's `connection` it becomes part of the caller's transaction.
        """
        return self._portal.run(self._async.delete, collection, ids, purge=purge, tenant=tenant, connection=connection)

    def delete_where(
        self, collection: str, filter: Mapping[str, Any], *, purge: bool = False, tenant: str | None = None
    ) -> int:
        """Delete all records that a filter allows, in steps, as `delete` does; return how many. It can be repeated."""
        return self._portal.run(self._async.delete_where, collection, filter, purge=purge, tenant=tenant)

    def regenerate(self, collection: str, id: str, *, tenant: str | None = None) -> Receipt:
        """Embed a record again, even if its vector is current."""
        return self._portal.run(self._async.regenerate, collection, id, tenant=tenant)

    def enqueue(
        self, collection: str, id: str, *, force: bool = False, priority: PriorityLike = None, tenant: str | None = None
    ) -> Receipt:
        """Give a live record a job, if its current text has neither vector nor job, or if forced."""
        return self._portal.run(self._async.enqueue, collection, id, force=force, priority=priority, tenant=tenant)

    def search(
        self,
        collection: str,
        query: str,
        *,
        k: int = 10,
        mode: SearchMode | str = SearchMode.AUTO,
        filter: Mapping[str, Any] | None = None,
        tenant: str | None = None,
    ) -> Answer:
        """Find records by meaning, by words, or both; the answer says how it was found and how fresh it is.

        Without a query vector, `auto` and `hybrid` answer by words and say why; `semantic` raises SearchUnavailable.
        """
        return self._portal.run(self._async.search, collection, query, k=k, mode=mode, filter=filter, tenant=tenant)

    def embed(
        self,
        texts: Sequence[str],
        *,
        collection: str | None = None,
        embedder: EmbedderName | str | None = None,
        purpose: Purpose | str = Purpose.QUERY,
    ) -> TextVectors:
        """Embed texts as a collection's embedder does, or as the named or default one; nothing is stored.

        The vectors are float32, a row per text. An embedder that cannot answer now: Unavailable, which says why.
        """
        return self._portal.run(self._async.embed, texts, collection=collection, embedder=embedder, purpose=purpose)

    def wait(
        self, collection: str, ids: Sequence[str], *, timeout: float, tenant: str | None = None
    ) -> dict[str, EmbeddingStatus]:
        """Wait until none of these records is pending; return a status per id.

        Raise TimeoutError after `timeout` seconds; it says so if no worker is alive.
        """
        return self._portal.run(self._async.wait, collection, ids, timeout=timeout, tenant=tenant)

    def declare(
        self,
        name: str,
        *,
        text_from: Sequence[str] | None = None,
        embedder: EmbedderName | str | None = None,
        priority: PriorityLike = None,
        retry: Mapping[str, Any] | RetryPolicy | None = None,
        language: str | None = None,
    ) -> Collection:
        """Declare a collection, in english unless `language` says another; the same again changes nothing.

        A new `text_from` embeds again the records whose text changes; a new embedder over existing records: Conflict.
        """
        return self._portal.run(
            self._async.declare,
            name,
            text_from=text_from,
            embedder=embedder,
            priority=priority,
            retry=retry,
            language=language,
        )

    def embedder(self, given: EmbedderName | str | None = None) -> EmbedderName:
        """Parse an embedder's name into its canonical form; none given means the default."""
        return self._async.embedder(given)

    def collections(self) -> Sequence[Collection]:
        """List the collections by name."""
        return self._portal.run(self._async.collections)

    def collection(self, name: str) -> Collection:
        """Read a collection's declaration."""
        return self._portal.run(self._async.collection, name)

    def drop(self, name: str, *, confirm: str) -> None:
        """Remove a collection with its records, vectors and jobs; `confirm` repeats its name."""
        self._portal.run(self._async.drop, name, confirm=confirm)
