"""What every test of a store needs: an open store, moments, and a few helpers."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import pytest_asyncio

from embedq.model import (
    Ask,
    Declaration,
    Done,
    EmbedderName,
    ErrorCategory,
    Failed,
    Fault,
    Job,
    JobId,
    Lease,
    NewRecord,
    Priority,
    Reason,
    Receipt,
    Record,
    RecordId,
    Retry,
    SpaceId,
    Vector,
    WorkerId,
)
from embedq.policy.texts import hash_of
from embedq.ports import Store

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
LEASE = 5 * MINUTE
LATE = NOON + LEASE + SECOND  # when a lease of noon has expired
NOTES = "notes"
FAULT = Fault(ErrorCategory.TRANSIENT, "500", "the provider stumbled")
DIMENSIONS = 8


class Stage:
    """Inherit a suite and define how your store is opened; `place` may be whatever your store needs."""

    pytestmark: ClassVar = [pytest.mark.asyncio]
    one_database: ClassVar[bool] = True  # corpus and queue commit together; False: they are a pair [11]

    async def open_store(self, place: Path) -> Store:
        """Open the store; a second call with the same place opens the same database again."""
        raise NotImplementedError(f"{type(self).__name__} must say how its store is opened at {place}")

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """Return where the database is."""
        return tmp_path

    @pytest_asyncio.fixture
    async def store(self, place: Path) -> AsyncIterator[Store]:
        """Open a store with one collection, `notes`."""
        store = await self.open_store(place)
        collection = await store.declare(declaration(), now=NOON)
        await store.learn(collection.space.id, DIMENSIONS)
        yield store
        await store.close()

    @pytest_asyncio.fixture
    async def other(self, store: Store, place: Path) -> AsyncIterator[Store]:
        """Open the same database as another process would."""
        del store
        other = await self.open_store(place)
        yield other
        await other.close()


def declaration(name: str = NOTES, **changes: object) -> Declaration:
    """Declare a collection of the fake embedder."""
    plain = {"name": name, "embedder": EmbedderName(provider="fake", model="fake")}
    return Declaration(**{**plain, **changes})  # type: ignore[arg-type]  # a test's own values


def vector_of(text: str) -> Vector:
    """Make the vector of a text in these tests."""
    return np.frombuffer(hash_of(text), dtype=np.uint8)[:DIMENSIONS].astype(np.float32) + 1


def done(lease: Lease) -> Done:
    """Make a Done with the vector of what was leased."""
    return Done(lease, vector_of(lease.text or ""))


def retry(lease: Lease, after: timedelta = SECOND) -> Retry:
    """Make a Retry."""
    return Retry(lease, FAULT, after)


def failed(lease: Lease) -> Failed:
    """Make a permanent Failed."""
    return Failed(lease, FAULT, Reason.PERMANENT_ERROR)


async def write(
    store: Store, text: str, id_: str = "a", *, at: datetime = NOON, priority: Priority | None = None
) -> Receipt:
    """Put one record."""
    [receipt] = await store.put(NOTES, [NewRecord(id=RecordId(id_), text=text, priority=priority)], now=at)
    return receipt


async def write_many(store: Store, count: int, *, at: datetime = NOON, prefix: str = "r") -> list[Receipt]:
    """Put many records with different texts."""
    receipts: list[Receipt] = []
    for start in range(0, count, 500):
        numbers = range(start, min(start + 500, count))
        records = [NewRecord(id=RecordId(f"{prefix}{n}"), text=f"text {prefix} {n}") for n in numbers]
        receipts += await store.put(NOTES, records, now=at)
    return receipts


async def space_of(store: Store) -> SpaceId:
    """Return the space that embeds the notes."""
    [space] = [found.space for found in await store.collections() if found.declaration.name == NOTES]
    return space.id


async def take(
    store: Store, worker: str = "w1", *, at: datetime | None = NOON, limit: int = 10, prefetch: bool = False
) -> list[Lease]:
    """Lease some jobs."""
    spaces = [space.id for space in await store.spaces()]
    ask = Ask(worker=WorkerId(worker), spaces=spaces, limit=limit, span=LEASE, prefetch=prefetch)
    return list((await store.lease(ask, now=at)).leases)


async def take_one(store: Store, worker: str = "w1", *, at: datetime = NOON) -> Lease:
    """Lease the only job."""
    [lease] = await take(store, worker, at=at)
    return lease


async def job_of(store: Store, receipt: Receipt) -> Job:
    """Read the job of a receipt."""
    assert receipt.job_id is not None
    return await read_job(store, receipt.job_id)


async def read_job(store: Store, job: JobId) -> Job:
    """Read a job that must exist."""
    found = await store.job(job)
    assert found is not None
    return found


async def read(store: Store, id_: str = "a") -> Record:
    """Read a record with its vector."""
    [record] = await store.get(NOTES, [RecordId(id_)], with_vectors=True)
    return record


async def has_vector_of(store: Store, text: str, id_: str = "a") -> bool:
    """Say whether the record's stored vector is this text's."""
    [record] = await store.get(NOTES, [RecordId(id_)], with_vectors=True)
    return record.vector is not None and np.array_equal(record.vector, vector_of(text))


async def embed_all(store: Store, *, at: datetime = NOON) -> int:
    """Work until nothing is left; return how many jobs it took."""
    count = 0
    while leases := await take(store, at=at, limit=100):
        await store.settle([done(lease) for lease in leases], now=at)
        count += len(leases)
    return count
