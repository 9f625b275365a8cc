"""The corpus: collections, records, vectors, search."""

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
from embedq.stores.postgres import arming, callers, collections, deleting, keeping, putting, reading, searching
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.moments import text_of

KNOWN = "SELECT hash, embedding FROM embedq.known(embedq.space_number($1), $2)"
STEP = 1000  # records handled in one transaction of a longer task


class PostgresRecords:
    """Records and their vectors in one PostgreSQL database, wherever their jobs are stored."""

    def __init__(self, database: Database, limits: Limits) -> None:
        """Use an open database."""
        self._database = database
        self._limits = limits
        self._puts = 0

    async def declare(self, declaration: Declaration, *, now: datetime | None = None) -> Collection:
        """See `ports.Declaring`."""
        await collections.declare(self._database, declaration)
        while await collections.recompose(self._database, STEP, self._limits, now):
            continue
        found = await collections.listing(self._database)
        return next(item for item in found if item.declaration.name == declaration.name)

    async def collections(self) -> Sequence[Collection]:
        """See `ports.Declaring`."""
        return await collections.listing(self._database)

    async def drop(self, collection: str, *, now: datetime | None = None) -> None:
        """See `ports.Declaring`."""
        await collections.drop(self._database, collection)
        while await keeping.remove_dropped(self._database, STEP, now):
            continue

    async def spaces(self) -> Sequence[Space]:
        """See `ports.Declaring`."""
        return await collections.spaces(self._database)

    async def learn(self, space: SpaceId, dimensions: int) -> int:
        """See `ports.Declaring`."""
        return await collections.learn(self._database, space, dimensions)

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
        if connection is not None:
            which = {"purge": purge, "tenant": tenant, "now": text_of(now)}
            return await callers.delete(self._database, connection, collection, records, which)

        async def work(db: Connection) -> list[RecordId]:
            found = await find(db, collection)
            found.check_writable()
            which = (list(records), purge, now, tenant)
            gone = set(await db.fetchval(keeping.DELETE_RECORDS, found.id, found.space, *which))
            return [record for record in dict.fromkeys(records) if record in gone]

        return await self._database.write(work, repeat=False)

    async def delete_where(
        self, collection: str, which: Selection, *, purge: bool = False, now: datetime | None = None
    ) -> Page[RecordId]:
        """See `ports.Writing`."""
        return await self._database.write(
            lambda db: deleting.delete_where(db, collection, which, now, purge=purge), repeat=False
        )

    async def get(
        self,
        collection: str,
        records: Sequence[RecordId],
        *,
        with_vectors: bool = False,
        max_bytes: int | None = None,
    ) -> Sequence[Record]:
        """See `ports.Reading`."""
        return await self._database.run(
            lambda db: reading.get(db, collection, records, with_vectors=with_vectors, max_bytes=max_bytes),
            repeat=True,
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
        return await self._database.run(lambda db: reading.page(db, collection, which), repeat=True)

    async def search_vector(self, collection: str, vector: Vector, query: Query) -> Sequence[Hit]:
        """See `ports.Reading`."""
        return await self._database.run(lambda db: searching.by_vector(db, collection, vector, query), repeat=True)

    async def search_words(self, collection: str, words: str, query: Query) -> Sequence[Hit]:
        """See `ports.Reading`."""
        return await self._database.run(lambda db: searching.by_words(db, collection, words, query), repeat=True)

    async def show(
        self, collection: str, records: Sequence[RecordId], *, max_bytes: int | None = None
    ) -> tuple[Sequence[Shown], Freshness]:
        """See `ports.Reading`."""
        return await self._database.run(lambda db: reading.show(db, collection, records, max_bytes), repeat=True)

    async def freshness(self, collection: str, *, now: datetime | None = None) -> Freshness:
        """See `ports.Reading`."""
        _, found = await self._database.run(lambda db: reading.show(db, collection, [], None, now), repeat=True)
        return found

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """See `ports.Leasing`."""
        rows = await self._database.fetch(KNOWN, space, list(hashes))
        return {ContentHash(row["hash"]): row["embedding"] for row in rows}

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """See `ports.Keeping`."""
        return await self._database.write(lambda db: keeping.recount(db, collection, after, limit), repeat=True)

    async def _fold(self) -> None:
        """Fold the rows that record changes of sums, now and then."""
        self._puts += 1
        if self._puts % putting.FOLD_EVERY == 0:
            await self._database.fetch(putting.FOLD)


class PostgresCorpus(PostgresRecords):
    """Records with their jobs in the same database: a write arms them in the same transaction."""

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Receipt]:
        """See `ports.Writing`."""
        if connection is not None:
            return await callers.put(
                self._database, connection, collection, records, self._limits, now, putting.receipts
            )
        receipts = await putting.put(self._database, collection, records, self._limits, now, putting.receipts)
        self._database.woke()
        await self._fold()
        return receipts

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Receipt:
        """See `ports.Writing`."""
        receipt = await putting.patch(self._database, collection, record, patch, self._limits, now, putting.receipts)
        self._database.woke()
        return receipt

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
        receipts = await self._database.write(
            lambda db: arming.enqueue(
                db, collection, records, force=force, priority=job_priority, tenant=tenant, now=now
            ),
            repeat=not force,  # a forced embedding costs money each time
        )
        self._database.woke()
        return receipts
