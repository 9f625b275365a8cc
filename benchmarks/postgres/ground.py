"""Where the PostgreSQL benchmarks run: a server of their own that keeps every commit, and records to work on."""

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
import numpy as np

from embedq.model import Ask, Collection, Declaration, Done, EmbedderName, NewRecord, RecordId, Vector, WorkerId
from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import PostgresAddress, PostgresServer
from texts import text

NAME = "bench"
BATCH = 100
STEP = 1000
DISK = Path("/var/tmp")  # noqa: S108 on a disk and open to the server's own account, which /tmp and a checkout may not be


@contextmanager
def server(version: int = 18) -> Iterator[PostgresServer]:
    """Run a server as it comes: every commit on disk, autovacuum on."""
    with tempfile.TemporaryDirectory(prefix="embedq-bench-", dir=DISK) as home:
        Path(home).chmod(0o755)
        with PostgresServer(version, directory=Path(home) / "server") as running:
            yield running


@contextmanager
def database(address: PostgresAddress, name: str = NAME) -> Iterator[str]:
    """Lend an empty database."""
    url = address.create_database(name)
    try:
        yield url
    finally:
        address.drop_database(name)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    """Open the product's store."""
    store = await PostgresStore.open(url)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a bare connection, set as the product's are."""
    connection = await asyncpg.connect(url, server_settings={"jit": "off"})
    try:
        yield connection
    finally:
        await connection.close()


async def declare(store: PostgresStore, dimensions: int) -> Collection:
    """Declare the benchmark's collection, or find it."""
    name = EmbedderName(provider="fake", model="", dimensions=dimensions)
    collection = await store.declare(Declaration(name=NAME, embedder=name))
    await store.learn(collection.space.id, dimensions)
    return collection


def ask(collection: Collection, limit: int = BATCH) -> Ask:
    """Ask for a batch as a worker does."""
    return Ask(worker=WorkerId(NAME), spaces=[collection.space.id], limit=limit, span=timedelta(minutes=5))


def records(count: int, *, salt: str = "") -> list[NewRecord]:
    """Make records; another salt, other ids and texts."""
    return [NewRecord(id=RecordId(f"{salt}{number}"), text=text(number, salt=salt)) for number in range(count)]


async def put(store: PostgresStore, wanted: Sequence[NewRecord]) -> None:
    """Put records in large batches."""
    for first in range(0, len(wanted), STEP):
        await store.put(NAME, wanted[first : first + STEP])


async def settle_all(store: PostgresStore, wanted: Ask, vector: Vector | None) -> int:
    """Lease and complete until nothing is left; answer with how many jobs it were."""
    done = 0
    leases = (await store.lease(wanted)).leases
    while leases:
        settled = await store.settle([Done(lease, vector) for lease in leases], then=wanted)
        done += len(settled.jobs)
        leases = settled.next.leases
    return done


def ones(dimensions: int) -> Vector:
    """Make a vector."""
    return np.full(dimensions, dimensions**-0.5, np.float32)
