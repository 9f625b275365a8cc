"""The corpus: collections, records, vectors, search."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from embedq.conditions import Filter, Selection
from embedq.model import (
    Collection,
    ContentHash,
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
from embedq.policy.texts import Limits
from embedq.stores.columns import Listed
from embedq.stores.sqlite import collections, deleting, keeping, putting, reading, searching
from embedq.stores.sqlite.file import File
from embedq.stores.sqlite.moments import clock, stamp
from embedq.stores.sqlite.transaction import Transaction

STEP = 1000  # records handled in one transaction of a longer task


class SqliteRecords:
    """Records and their vectors in one SQLite file, wherever their jobs are stored."""

    def __init__(self, file: File, limits: Limits) -> None:
        """Use an open file."""
        self._file = file
        self._limits = limits

    async def _declare(self, declaration: Declaration, now: datetime | None, *, arms: bool) -> Collection:
        await self._file.write(lambda tx: collections.declare(tx, declaration, stamp(now, tx.now)))
        while await self._file.write(
            lambda tx: collections.recompose(tx, STEP, stamp(now, tx.now), arms=arms), bulk=True
        ):
            continue
        found = await self._file.read(collections.listing)
        return next(item for item in found if item.declaration.name == declaration.name)

    async def collections(self) -> Sequence[Collection]:
        """See `ports.Declaring`."""
        return await self._file.read(collections.listing)

    async def drop(self, collection: str, *, now: datetime | None = None) -> None:
        """See `ports.Declaring`."""
        found = await self._file.read(lambda db: collections.find(db, collection))
        await self._file.write(lambda tx: deleting.drop(tx, collection))
        while await self._file.write(lambda tx: deleting.remove_dropped(tx, STEP, stamp(now, tx.now)), bulk=True):
            continue
        await asyncio.to_thread(self._file.follower.drop, found.id)

    async def spaces(self) -> Sequence[Space]:
        """See `ports.Declaring`."""
        return await self._file.read(collections.spaces)

    async def learn(self, space: SpaceId, dimensions: int) -> int:
        """See `ports.Declaring`."""
        return await self._file.write(lambda tx: collections.learn(tx, space, dimensions))

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
        """See `ports.Writing`."""

        def work(tx: Transaction) -> list[RecordId]:
            return deleting.delete(tx, collection, records, stamp(now, tx.now), purge=purge, tenant=tenant)

        return await self._file.write(work) if connection is None else await self._file.write_on(connection, work)

    async def delete_where(
        self, collection: str, which: Selection, *, purge: bool = False, now: datetime | None = None
    ) -> Page[RecordId]:
        """See `ports.Writing`."""
        return await self._file.write(
            lambda tx: deleting.delete_where(tx, collection, which, stamp(now, tx.now), purge=purge), bulk=True
        )

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """See `ports.Leasing`."""
        return await self._file.read(lambda db: reading.known(db, space, hashes))

    async def get(
        self,
        collection: str,
        records: Sequence[RecordId],
        *,
        with_vectors: bool = False,
        max_bytes: int | None = None,
    ) -> Sequence[Record]:
        """See `ports.Reading`."""
        return await self._file.read(
            lambda db: reading.get(db, collection, records, with_vectors=with_vectors, max_bytes=max_bytes)
        )

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
        """See `ports.Reading`."""
        which = Listed(status=status, tenant=tenant, wanted=wanted, limit=limit, cursor=cursor, max_bytes=max_bytes)
        return await self._file.read(lambda db: reading.page(db, collection, which))

    async def search_vector(self, collection: str, vector: Vector, query: Query) -> Sequence[Hit]:
        """See `ports.Reading`."""
        found, allowed = await self._file.read(lambda db: searching.allowed(db, collection, query))
        if allowed is not None and not len(allowed):
            return []
        near = await self._file.nearest((found.id, found.space), vector, query.k, allowed)
        return await self._file.read(lambda db: searching.shown(db, found.space, near, bare=query.bare))

    async def search_words(self, collection: str, words: str, query: Query) -> Sequence[Hit]:
        """See `ports.Reading`."""
        return await self._file.read(lambda db: searching.by_words(db, collection, words, query))

    async def show(
        self, collection: str, records: Sequence[RecordId], *, max_bytes: int | None = None
    ) -> tuple[Sequence[Shown], Freshness]:
        """See `ports.Reading`."""
        return await self._file.read(lambda db: reading.show(db, collection, records, max_bytes, clock()))

    async def freshness(self, collection: str, *, now: datetime | None = None) -> Freshness:
        """See `ports.Reading`."""
        return await self._file.read(lambda db: reading.freshness(db, collection, stamp(now, clock())))

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """See `ports.Keeping`."""
        return await self._file.write(lambda tx: keeping.recount(tx, collection, after, limit), bulk=True)


class SqliteCorpus(SqliteRecords):
    """Records with their jobs in the same file: a write arms them in the same transaction."""

    async def declare(self, declaration: Declaration, *, now: datetime | None = None) -> Collection:
        """See `ports.Declaring`."""
        return await self._declare(declaration, now, arms=True)

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Receipt]:
        """See `ports.Writing`."""

        def work(tx: Transaction) -> list[Receipt]:
            return putting.put(tx, collection, records, self._limits, stamp(now, tx.now))

        if connection is not None:
            return await self._file.write_on(connection, work)
        return await self._file.write(work)

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Receipt:
        """See `ports.Writing`."""
        return await self._file.write(
            lambda tx: putting.patch(tx, collection, record, patch, self._limits, stamp(now, tx.now))
        )

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
        """See `ports.Writing`."""
        return await self._file.write(
            lambda tx: keeping.enqueue(
                tx, collection, records, force=force, priority=job_priority, tenant=tenant, now=stamp(now, tx.now)
            )
        )
