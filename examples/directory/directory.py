"""The directory: each write of an entry and of its embedding job is one transaction."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any
from uuid import UUID

from embedq import EmbedQ
from embedq.errors import Conflict, NotFound
from embedq.model import Answer, EmbeddingStatus, Hit, Reason, Receipt

from . import entries
from .entries import Database, Entry
from .forms import MOST_AT_ONCE, TEXT_FIELDS, Changes, NewEntry, Regenerate

COLLECTION = "yellow-books"
# Five attempts, with about 2, 4, 8 and 16 seconds between them.
RETRY = {"base_seconds": 2.0, "factor": 2.0, "cap_seconds": 300.0, "jitter": 0.2, "max_attempts": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """Where an entry's vector stands."""

    status: EmbeddingStatus
    job_id: str | None
    reason: Reason | None = None
    vector: Sequence[float] | None = None


Listing = tuple[Entry, Embedding | None]  # None: there is nothing to embed
Match = tuple[Entry, Hit | None]  # None: an entry without a description, found by its words


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, and how."""

    answer: Answer
    hits: Sequence[Match]


class Directory:
    """Writes, reads and finds businesses."""

    def __init__(self, pool: Any, eq: EmbedQ) -> None:  # noqa: ANN401 asyncpg has no types
        """Keep entries by this pool and their vectors by this embedq: both must be on one database."""
        self._pool = pool
        self._eq = eq

    async def prepare(self, retry: dict[str, float]) -> None:
        """Make the table and declare the collection, whose text is made of the entry's fields."""
        async with self._pool.acquire() as db:
            await entries.make_schema(db)
        await self._eq.declare(COLLECTION, text_from=TEXT_FIELDS, retry=retry)

    async def add(self, new: NewEntry) -> Listing:
        """Enter a business; it has a job if it has a description."""
        async with self._transaction() as db:
            entry = await entries.insert(db, new)
            embedding = await self._queue(db, entry) if entry["description"] else None
        return entry, embedding

    async def change(self, id_: UUID, changes: Changes) -> Listing:
        """Change an entry; it has a job only if its text is another one now."""
        async with self._transaction() as db:
            before = await self._locked(db, id_)
            entry = await entries.update(db, id_, changes)
            if entry["description"] and changes.touches_text:
                return entry, await self._queue(db, entry)
            if before["description"] and not entry["description"]:
                await self._forget(db, id_)
        return entry, await self._embedding(id_)

    async def remove(self, id_: UUID) -> None:
        """Take an entry out; its job is cancelled and its vector goes."""
        async with self._transaction() as db:
            before = await self._locked(db, id_)
            await entries.delete(db, id_)
            if before["description"]:
                await self._forget(db, id_)

    async def read(self, id_: UUID, *, with_vector: bool = False) -> Listing:
        """Read an entry, and where its vector stands."""
        entry = await entries.find(self._pool, id_)
        if entry is None:
            raise _no_entry(id_)
        return entry, await self._embedding(id_, with_vector=with_vector)

    async def search(self, words: str, *, limit: int, city: str | None) -> Found:
        """Find businesses by meaning and words, or by words alone where no query vector can be had."""
        answer = await self._eq.search(COLLECTION, words, k=limit, filter={"city": city} if city else None)
        rows = await entries.find_all(self._pool, [hit.id for hit in answer.hits])
        near: list[Match] = [(rows[hit.id], hit) for hit in answer.hits if hit.id in rows]  # the others are gone by now
        plain: list[Match] = [(entry, None) for entry in await entries.undescribed(self._pool, words, city, limit)]
        # Neither list's scores mean anything to the other: the best of each, then the second best of each. Words that
        # stand in an entry go first, because something is always near.
        merged = [found for found in chain.from_iterable(zip_longest(plain, near)) if found is not None]
        return Found(answer=answer, hits=merged[:limit])

    async def regenerate(self, id_: UUID) -> Listing:
        """Embed an entry anew, even if its vector is current."""
        async with self._transaction() as db:
            entry = await self._locked(db, id_)
            if not entry["description"]:
                raise Conflict(f"entry {id_} has no description: there is nothing to embed")
            await self._queue(db, entry)
        return entry, _queued(await self._eq.regenerate(COLLECTION, str(id_)))

    async def regenerate_all(self, which: Regenerate) -> dict[str, str | None]:
        """Embed many entries anew; answer with the job of each, None where there is nothing to embed."""
        ids = which.ids or [id_ async for id_ in self._standing(which.embedding_status)]
        jobs: dict[str, str | None] = {}
        for id_ in ids:
            try:
                _, embedding = await self.regenerate(id_)
                jobs[str(id_)] = embedding.job_id if embedding else None
            except (Conflict, NotFound):
                jobs[str(id_)] = None
        return jobs

    async def named(self, ids: Sequence[str]) -> dict[str, Entry]:
        """Read those of these entries that are there."""
        return await entries.find_all(self._pool, ids)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Database]:
        async with self._pool.acquire() as db, db.transaction():
            yield db

    async def _locked(self, db: Database, id_: UUID) -> Entry:
        entry = await entries.lock(db, id_)
        if entry is None:
            raise _no_entry(id_)
        return entry

    async def _queue(self, db: Database, entry: Entry) -> Embedding:
        """Put an entry on our own connection: record, job and entry are committed together, or none of them.

        A text that embedq has already queues nothing, and the receipt names the job there is.
        """
        record = {"id": str(entry["id"]), "attributes": {name: entry[name] for name in TEXT_FIELDS}}
        [receipt] = await self._eq.put(COLLECTION, [record], connection=db)
        return _queued(receipt)

    async def _forget(self, db: Database, id_: UUID) -> None:
        """Delete the record on our own connection: it goes with the entry, or stays with it."""
        with suppress(NotFound):
            await self._eq.delete(COLLECTION, [str(id_)], connection=db)

    async def _embedding(self, id_: UUID, *, with_vector: bool = False) -> Embedding | None:
        try:
            record = await self._eq.get(COLLECTION, str(id_), with_vector=with_vector)
        except NotFound:
            return None
        vector = None if record.vector is None else [float(value) for value in record.vector]
        return Embedding(status=record.embedding_status, job_id=record.job_id, reason=record.reason, vector=vector)

    async def _standing(self, status: EmbeddingStatus | None) -> AsyncIterator[UUID]:
        """List the entries whose vectors stand so."""
        cursor: str | None = None
        while True:
            page = await self._eq.records(COLLECTION, status=status, limit=MOST_AT_ONCE, cursor=cursor)
            for record in page.items:
                yield UUID(record.id)
            cursor = page.next_cursor
            if cursor is None:
                return


def _queued(receipt: Receipt) -> Embedding:
    return Embedding(status=receipt.embedding_status, job_id=receipt.job_id)


def _no_entry(id_: UUID) -> NotFound:
    return NotFound(f"no entry {id_}")
