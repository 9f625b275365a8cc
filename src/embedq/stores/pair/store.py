"""Two databases as one store."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol, Self, runtime_checkable

from embedq.conditions import Filter
from embedq.errors import StoreForbidden
from embedq.model import (
    Freshness,
    HealthReport,
    Hit,
    Page,
    Query,
    Record,
    RecordId,
    Shown,
    Vector,
    Worker,
    WorkerId,
    WorkerInfo,
)
from embedq.ports.halves import Corpus, JobStore
from embedq.stores.pair.keeping import PairKeeping
from embedq.stores.pair.working import PairWorking
from embedq.stores.pair.writing import PairWriting


@runtime_checkable
class RoleMaking(Protocol):
    """A half whose database has roles."""

    async def make_roles(self) -> dict[str, list[str]]:
        """Create roles for readers, writers and workers."""
        ...


class PairStore(PairWriting, PairWorking, PairKeeping):
    """Any corpus with any job store. The reconciler closes the gaps that a crash leaves between the two."""

    @classmethod
    async def join(cls, corpus: Corpus, queue: JobStore, *, note: bool = True) -> Self:
        """Join two open halves; declare the corpus's collections in the queue, unless this role only reads it.

        A queue of another corpus is refused: its jobs would find no records, and be cancelled.
        """
        await queue.belong_to(await corpus.identity(), note=note)
        with suppress(StoreForbidden):
            for collection in await corpus.collections():
                await queue.declare(collection)
        return cls(corpus, queue)

    async def get(
        self, collection: str, records: Sequence[RecordId], *, with_vectors: bool = False, max_bytes: int | None = None
    ) -> Sequence[Record]:
        """See `ports.Reading`."""
        found = await self._corpus.get(collection, records, with_vectors=with_vectors, max_bytes=max_bytes)
        return await self._with_jobs(collection, found)

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
        page = await self._corpus.records(
            collection, status=status, tenant=tenant, wanted=wanted, limit=limit, cursor=cursor, max_bytes=max_bytes
        )
        return Page(await self._with_jobs(collection, page.items), page.next_cursor)

    async def search_vector(self, collection: str, vector: Vector, query: Query) -> Sequence[Hit]:
        """See `ports.Reading`."""
        return await self._corpus.search_vector(collection, vector, query)

    async def search_words(self, collection: str, words: str, query: Query) -> Sequence[Hit]:
        """See `ports.Reading`."""
        return await self._corpus.search_words(collection, words, query)

    async def show(
        self, collection: str, records: Sequence[RecordId], *, max_bytes: int | None = None
    ) -> tuple[Sequence[Shown], Freshness]:
        """See `ports.Reading`."""
        shown, found = await self._corpus.show(collection, records, max_bytes=max_bytes)
        return shown, await self._with_waiting(collection, found)

    async def freshness(self, collection: str, *, now: datetime | None = None) -> Freshness:
        """See `ports.Reading`."""
        return await self._with_waiting(collection, await self._corpus.freshness(collection, now=now), now)

    async def pause(self) -> None:
        """See `ports.Pausing`."""
        await self._queue.pause()

    async def resume(self) -> None:
        """See `ports.Pausing`."""
        await self._queue.resume()

    async def paused(self) -> bool:
        """See `ports.Pausing`."""
        return await self._queue.paused()

    async def resumes(self) -> int:
        """See `ports.Pausing`."""
        return await self._queue.resumes()

    async def register(self, worker: WorkerInfo, *, now: datetime | None = None) -> None:
        """See `ports.Fleet`."""
        await self._queue.register(worker, now=now)

    async def beat(self, worker: WorkerId, report: HealthReport, *, now: datetime | None = None) -> bool:
        """See `ports.Fleet`."""
        return await self._queue.beat(worker, report, now=now)

    async def leave(self, worker: WorkerId) -> None:
        """See `ports.Fleet`."""
        await self._queue.leave(worker)

    async def workers(self, *, heartbeat: timedelta, now: datetime | None = None) -> Sequence[Worker]:
        """See `ports.Fleet`."""
        return await self._queue.workers(heartbeat=heartbeat, now=now)

    async def make_roles(self) -> dict[str, list[str]]:
        """Create roles in those of the two databases that have roles; safe to repeat."""
        made: defaultdict[str, list[str]] = defaultdict(list)
        for half in (self._corpus, self._queue):
            for what, roles in (await half.make_roles()).items() if isinstance(half, RoleMaking) else ():
                made[what] += [role for role in roles if role not in made[what]]
        return dict(made)

    async def check(self) -> None:
        """See `ports.Store`."""
        await self._corpus.check()
        await self._queue.check()

    async def close(self) -> None:
        """See `ports.Store`."""
        await asyncio.gather(self._queue.close(), self._corpus.close())

    async def _with_waiting(self, collection: str, found: Freshness, now: datetime | None = None) -> Freshness:
        """Add how many jobs wait in the queue: the corpus cannot know."""
        waiting = await self._queue.waiting(collection, now=now)
        return replace(found, pending=waiting.jobs, oldest_pending=waiting.oldest)

    async def _with_jobs(self, collection: str, records: Sequence[Record]) -> list[Record]:
        """Add each record's job."""
        states = await self._queue.states(collection, [record.id for record in records]) if records else {}
        return [
            replace(record, job_id=states[record.id].job_id) if record.id in states else record for record in records
        ]
