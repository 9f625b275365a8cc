"""The application's side of embedq."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from embedq.client import intake
from embedq.client.batches import needs_declaring, read_batch
from embedq.client.catalogue import Catalogue
from embedq.client.deleting import delete_all
from embedq.client.intake import PriorityLike, RecordLike
from embedq.client.options import ClientOptions
from embedq.client.owned import check_owned, no_record
from embedq.client.queries import Embedders, QueryVectors
from embedq.client.searching import Searching
from embedq.client.tables import Tables
from embedq.client.texts import EmbeddedTexts
from embedq.client.waiting import wait_for
from embedq.embedding import Purpose, TextVectors
from embedq.errors import Conflict, Invalid, NotFound
from embedq.model import (
    Answer,
    Collection,
    Declaration,
    EmbedderName,
    EmbeddingStatus,
    NewRecord,
    Page,
    Priority,
    Receipt,
    Record,
    RecordId,
    RetryPolicy,
    SearchMode,
)
from embedq.policy.filters import read_filter
from embedq.policy.tenants import belongs, check_tenant
from embedq.ports import UserStore
from embedq.telemetry import Event, Telemetry


class Client:
    """Writes records, reads them, and finds them by meaning and by words."""

    def __init__(self, store: UserStore, embedders: Embedders, *, options: ClientOptions, telemetry: Telemetry) -> None:
        """Write to and read from this store; embed queries with these embedders."""
        self._store = store
        self._embedders = embedders
        self._options = options
        self._telemetry = telemetry
        self._catalogue = Catalogue(store, strict=options.strict)
        self._vectors = QueryVectors(store, embedders, options=options, telemetry=telemetry)
        self._searching = Searching(store, self._catalogue, self._vectors, options=options, telemetry=telemetry)
        self._texts = EmbeddedTexts(store, self._catalogue, self._vectors, options)
        self.tables = Tables(store, embedders, options=options, telemetry=telemetry)

    async def check(self, collection: str, records: Sequence[RecordLike]) -> list[NewRecord]:
        """Refuse what `put` would refuse, without writing; return the parsed records."""
        batch = await read_batch(self._catalogue, collection, records, self._options.limits)
        intake.check_texts(batch, await self._catalogue.text_from(collection))
        return batch

    async def put(
        self, collection: str, records: Sequence[RecordLike], *, connection: object | None = None
    ) -> Sequence[Receipt]:
        """Write records and arm their jobs, all or none; one receipt per record, in order.

        The first put to an undeclared collection declares it with defaults, unless the settings are strict. With the
        caller's `connection` the write becomes part of the caller's transaction; the collection must exist then.
        """
        started = monotonic()
        batch = await read_batch(self._catalogue, collection, records, self._options.limits)
        intake.check_collection(collection)
        try:
            receipts = await self._store.put(collection, batch, connection=connection)
        except NotFound:
            if await needs_declaring(self._catalogue, collection, batch, may=connection is None):
                await self.declare(collection)
            receipts = await self._store.put(collection, batch, connection=connection)
        spent = monotonic() - started
        self._telemetry.emit(Event.PUT, level="debug", collection=collection, records=len(batch), seconds=spent)
        return receipts

    async def get(
        self,
        collection: str,
        id: str,  # noqa: A002 the API's own name
        *,
        with_vector: bool = False,
        tenant: str | None = None,
    ) -> Record:
        """Read one live record."""
        [id_] = intake.read_ids([id])
        check_tenant(tenant)
        await self.collection(collection)
        found = await self._store.get(collection, [id_], with_vectors=with_vector)
        if not found or not belongs(found[0].tenant, tenant):
            raise no_record(collection, id_)
        return found[0]

    async def records(
        self,
        collection: str,
        *,
        status: EmbeddingStatus | str | None = None,
        tenant: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 the API's own name
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Record]:
        """List live records by embedding status, tenant and filter; a page of long texts has fewer than `limit`."""
        which, wanted = intake.read_status(status), read_filter(filter)
        intake.check_limit(limit)
        check_tenant(tenant)
        await self.collection(collection)
        most = {"limit": limit, "max_bytes": self._options.max_answer_bytes}
        return await self._store.records(collection, status=which, tenant=tenant, wanted=wanted, cursor=cursor, **most)

    async def patch(
        self,
        collection: str,
        id: str,  # noqa: A002 the API's own name
        changes: Mapping[str, Any],
        *,
        tenant: str | None = None,
    ) -> Receipt:
        """Merge a change into a live record; it is embedded again only if its text changed."""
        [id_] = intake.read_ids([id])
        patch = intake.read_patch(changes, self._options.limits)
        check_tenant(tenant)
        await self.collection(collection)
        if tenant is not None and not belongs(patch.tenant or tenant, tenant):
            raise no_record(collection, id_)
        return await self._store.patch(collection, id_, replace(patch, tenant=patch.tenant or tenant))

    async def delete(
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
        wanted = intake.read_ids(ids)
        check_tenant(tenant)
        await self.collection(collection)
        gone = await self._store.delete(collection, wanted, purge=purge, tenant=tenant, connection=connection)
        self._telemetry.emit(Event.DELETED, collection=collection, records=len(gone), purge=purge)
        return gone

    async def delete_where(
        self,
        collection: str,
        filter: Mapping[str, Any],  # noqa: A002 the API's own name
        *,
        purge: bool = False,
        tenant: str | None = None,
    ) -> int:
        """Delete all records that a filter allows, in steps, as `delete` does; return how many. It can be repeated."""
        check_tenant(tenant)
        await self.collection(collection)
        gone = await delete_all(self._store, collection, read_filter(filter), purge=purge, tenant=tenant)
        self._telemetry.emit(Event.DELETED, collection=collection, records=gone, purge=purge)
        return gone

    async def regenerate(self, collection: str, id: str, *, tenant: str | None = None) -> Receipt:  # noqa: A002 the API's own name
        """Embed a record again, even if its vector is current."""
        return await self.enqueue(collection, id, force=True, tenant=tenant)

    async def enqueue(
        self,
        collection: str,
        id: str,  # noqa: A002 the API's own name
        *,
        force: bool = False,
        priority: PriorityLike = None,
        tenant: str | None = None,
    ) -> Receipt:
        """Give a live record a job, if its current text has neither vector nor job, or if forced."""
        [id_] = intake.read_ids([id])
        lane = intake.read_priority(priority)
        check_tenant(tenant)
        await self.collection(collection)
        [receipt] = await self._store.enqueue(collection, [id_], force=force, job_priority=lane, tenant=tenant)
        return receipt

    async def search(
        self,
        collection: str,
        query: str,
        *,
        k: int = 10,
        mode: SearchMode | str = SearchMode.AUTO,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 the API's own name
        tenant: str | None = None,
    ) -> Answer:
        """Find records by meaning, by words, or both; the answer says how it was found and how fresh it is.

        Without a query vector, `auto` and `hybrid` answer by words and say why; `semantic` raises SearchUnavailable.
        """
        asked = self._searching.read(query, k=k, mode=mode, filter=filter, tenant=tenant)
        return await self._searching.answer(collection, asked)

    async def embed(
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
        if collection is not None and embedder is not None:
            raise Invalid("name a collection or an embedder, not both")
        return await self._texts.of(texts, purpose, collection=collection, embedder=self.embedder(embedder))

    async def wait(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        timeout: float,  # noqa: ASYNC109 its error says what it waited for, and why
        tenant: str | None = None,
    ) -> dict[str, EmbeddingStatus]:
        """Wait until none of these records is pending; return a status per id.

        Raise TimeoutError after `timeout` seconds; it says so if no worker is alive.
        """
        wanted = intake.read_ids(ids)
        check_tenant(tenant)
        await self.collection(collection)
        await check_owned(self._store, collection, wanted, tenant=tenant)
        return await wait_for(self._store, collection, wanted, seconds=timeout, options=self._options)

    async def declare(
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
        intake.check_new_collection(name)
        lane = intake.read_priority(priority)
        return await self._catalogue.declare(
            Declaration(
                name=name,
                embedder=await self._embedder(name, embedder),
                text_from=intake.read_text_from(text_from),
                priority=Priority.NORMAL if lane is None else lane,
                retry=intake.read_retry(retry, self._options.retry),
                language=intake.read_language(language),
            )
        )

    def embedder(self, given: EmbedderName | str | None = None) -> EmbedderName:
        """Parse an embedder's name into its canonical form; none given means the default."""
        return self._options.embedder if given is None else intake.read_embedder(given, self._embedders.canonical)

    async def collections(self) -> Sequence[Collection]:
        """List the collections by name."""
        return await self._catalogue.all()

    async def collection(self, name: str) -> Collection:
        """Read a collection's declaration."""
        return await self._catalogue.look_up(name)

    async def drop(self, name: str, *, confirm: str) -> None:
        """Remove a collection with its records, vectors and jobs; `confirm` repeats its name."""
        await self._catalogue.look_up(name)
        if confirm != name:
            raise Conflict(f"this removes all of {name!r} for good: confirm it by its name")
        await self._store.drop(name)
        self._catalogue.forget(name)
        self._telemetry.emit(Event.DELETED, level="warning", collection=name, dropped=True)

    async def close(self) -> None:
        """Cancel the embedding of queries that timed out."""
        await self._vectors.close()

    async def _embedder(self, collection: str, given: EmbedderName | str | None) -> EmbedderName:
        """Parse an embedder's name; none given means the collection's own, or the default for a new one."""
        known = await self._catalogue.find(collection) if given is None else None
        return known.declaration.embedder if known else self.embedder(given)
