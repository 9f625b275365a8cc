"""What applications write: to the corpus first, then to the queue what it needs."""

from collections.abc import Sequence
from datetime import datetime

from embedq.conditions import Selection
from embedq.errors import NotFound
from embedq.exchange import Arm, Cause, Queued, Written
from embedq.model import (
    Collection,
    Declaration,
    EmbeddingStatus,
    NewRecord,
    Page,
    Patch,
    Receipt,
    RecordId,
    Space,
    SpaceId,
)
from embedq.policy.tenants import belongs
from embedq.stores.pair.halves import Halves

STEP = 500  # records per batch


class PairWriting(Halves):
    """Collections and records."""

    async def declare(self, declaration: Declaration, *, now: datetime | None = None) -> Collection:
        """See `ports.Declaring`."""
        before = {found.declaration.name: found.declaration for found in await self._corpus.collections()}
        collection = await self._corpus.declare(declaration, now=now)
        await self._queue.declare(collection, now=now)
        old = before.get(declaration.name)
        if old is not None and old.text_from != declaration.text_from:
            await self._arm_missing(declaration.name, now)
        return collection

    async def collections(self) -> Sequence[Collection]:
        """See `ports.Declaring`."""
        return await self._corpus.collections()

    async def drop(self, collection: str, *, now: datetime | None = None) -> None:
        """See `ports.Declaring`."""
        await self._corpus.drop(collection, now=now)
        await self._queue.forget(collection, now=now)

    async def spaces(self) -> Sequence[Space]:
        """See `ports.Declaring`."""
        return await self._corpus.spaces()

    async def learn(self, space: SpaceId, dimensions: int) -> int:
        """See `ports.Declaring`. The queue learns it too: it shows the names of spaces."""
        fixed = await self._corpus.learn(space, dimensions)
        for collection in await self._corpus.collections():
            if collection.space.id == space:
                await self._queue.declare(collection)
        return fixed

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Receipt]:
        """See `ports.Writing`. What is written in a caller's transaction gets its job from the reconciler."""
        written = await self._corpus.put(collection, records, now=now, connection=connection)
        if connection is not None:
            return [_receipt(one, None) for one in written]
        return await self._queued(collection, written, now)

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Receipt:
        """See `ports.Writing`."""
        written = await self._corpus.patch(collection, record, patch, now=now)
        [receipt] = await self._queued(collection, [written], now)
        return receipt

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
        """See `ports.Writing`. A job of a record that a caller's transaction deletes ends when it finds no text."""
        gone = await self._corpus.delete(
            collection, records, purge=purge, tenant=tenant, now=now, connection=connection
        )
        ended = records if tenant is None else gone  # the others may belong to another tenant
        if connection is None and ended:
            await self._queue.withdraw(collection, ended, now=now)
        return gone

    async def delete_where(
        self, collection: str, which: Selection, *, purge: bool = False, now: datetime | None = None
    ) -> Page[RecordId]:
        """See `ports.Writing`."""
        gone = await self._corpus.delete_where(collection, which, purge=purge, now=now)
        if gone.items:
            await self._queue.withdraw(collection, gone.items, now=now)
        return gone

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
        standing = await self._corpus.standing(collection, records)
        live = {found.id: found for found in standing if belongs(found.tenant, tenant)}
        absent = [record for record in records if record not in live]
        if absent:
            raise NotFound(f"no record {absent[0]!r} in collection {collection!r}")
        arms = [
            Arm(
                record,
                live[record].hash,
                Cause.BY_HAND,
                tenant=live[record].tenant,
                priority=job_priority,
                current=live[record].current,
                forced=force,
            )
            for record in dict.fromkeys(records)
        ]
        queued = dict(zip(dict.fromkeys(records), await self._enqueue(collection, arms, now), strict=True))
        armed = [record for record, one in queued.items() if one.armed]
        if armed:
            await self._corpus.try_again(collection, armed)
        status = {True: EmbeddingStatus.EMBEDDED, False: EmbeddingStatus.PENDING}
        return [Receipt(record, status[live[record].current], queued[record].job_id) for record in records]

    async def _queued(self, collection: str, written: Sequence[Written], now: datetime | None) -> list[Receipt]:
        """Enqueue what was written."""
        arms = [
            Arm(
                one.id,
                one.hash,
                Cause.PUT,
                tenant=one.tenant,
                priority=one.priority,
                same=one.same,
                current=one.current,
                given_up=one.given_up,
            )
            for one in written
        ]
        queued = await self._enqueue(collection, arms, now)
        return [_receipt(one, job) for one, job in zip(written, queued, strict=True)]

    async def _arm_missing(self, collection: str, now: datetime | None) -> int:
        """Give a job to every record that needs one, by key."""
        after, armed = None, 0
        while some := await self._corpus.missing(collection, after=after, limit=STEP):
            after = some[-1].key
            arms = [Arm(s.id, s.hash, Cause.RECONCILE, tenant=s.tenant, given_up=s.given_up) for s in some]
            armed += sum(one.armed for one in await self._enqueue(collection, arms, now))
        return armed


def _receipt(written: Written, queued: Queued | None) -> Receipt:
    job = None if queued is None else queued.job_id
    if written.current:
        return Receipt(written.id, EmbeddingStatus.EMBEDDED, job)
    return Receipt(written.id, EmbeddingStatus.FAILED if written.given_up else EmbeddingStatus.PENDING, job)
