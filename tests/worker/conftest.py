"""A real SQLite store, a provider that fails to order, and an ear for events."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedq.embedding import EmbedderLimits, Embeddings, Purpose, ToldLimits
from embedq.model import (
    Counts,
    Declaration,
    EmbedderName,
    Job,
    JobFilter,
    JobStatus,
    NewRecord,
    RecordId,
    RetryPolicy,
    Vector,
)
from embedq.ports import Store
from embedq.stores.postgres import PostgresStore
from embedq.stores.sqlite import SqliteStore
from embedq.telemetry import Event, Facts, Telemetry
from embedq.upkeep import HostLiveness
from embedq.worker import Build, Pool, Timing, WorkerOptions

QUICK = RetryPolicy(base=timedelta(milliseconds=5), jitter=0.0)
Sleep = Callable[[float], Awaitable[None]]
PATIENCE = 20.0  # seconds until a condition that should come true is given up


class Ear:
    """Hears every event, from any thread, and lets tests wait for what they bring about."""

    def __init__(self) -> None:
        """Listen on the running loop."""
        self.heard: list[tuple[Event, str, dict[str, Any]]] = []
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()

    def __call__(self, event: Event, level: str, facts: Facts) -> None:
        """Take an event in."""
        self.heard.append((event, level, dict(facts)))
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._bell.set)

    def of(self, event: Event) -> list[dict[str, Any]]:
        """List the facts of an event, in the order they came."""
        return [facts for heard, _, facts in self.heard if heard is event]

    def levels(self, event: Event) -> list[str]:
        """List how loud an event was, each time."""
        return [level for heard, level, _ in self.heard if heard is event]

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it holds, looking again after each event."""
        async with asyncio.timeout(PATIENCE):
            while not await condition():
                await self._bell.wait()
                self._bell.clear()

    async def hear(self, event: Event, times: int = 1) -> list[dict[str, Any]]:
        """Wait for an event."""

        async def heard() -> bool:
            return len(self.of(event)) >= times

        await self.until(heard)
        return self.of(event)


class Provider:
    """An embedder whose answers a test decides. Without a plan it answers well."""

    def __init__(
        self,
        name: EmbedderName | None = None,
        *,
        remote: bool = False,
        max_inputs: int = 1000,
        limits: EmbedderLimits | None = None,
    ) -> None:
        """Answer well, until a plan says otherwise."""
        self.name = name or EmbedderName(provider="fake", model="")
        self.dimensions: int | None = None
        self.remote = remote
        self.limits = limits or EmbedderLimits(inputs=max_inputs)
        self.used: int | None = None  # tokens that each answer tells
        self.told: ToldLimits | None = None
        self.purposes: list[Purpose] = []
        self.size = 8
        self.calls: list[list[str]] = []
        self.plan: Callable[[Sequence[str]], Awaitable[Any]] | None = None

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
        """Note the call and follow the plan."""
        self.calls.append(list(texts))
        self.purposes.append(purpose)
        answer = await self.plan(texts) if self.plan is not None else None
        vectors = self.vectors(texts) if answer is None else answer
        return Embeddings(vectors=vectors, tokens=self.used, told=self.told)

    def tokens(self, text: str) -> int:
        """Count words."""
        return len(text.split())

    def vectors(self, texts: Sequence[str]) -> Vector:
        """Make the vectors that belong to these texts."""
        rows = [np.frombuffer(sha256(text.encode()).digest()[: self.size], np.uint8) for text in texts]
        return np.array(rows, np.float32) + 1

    def truncates(self, text: str) -> bool:
        """Cut long texts."""
        return len(text) > 1000

    async def close(self) -> None:
        """Hold nothing."""


class Gate:
    """Stops whoever passes until a test opens it."""

    def __init__(self) -> None:
        """Start closed."""
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, _: object = None) -> None:
        """Wait until it is open."""
        self.reached.set()
        await self.opened.wait()


class House:
    """Everything a worker test needs, on one store."""

    def __init__(self, store: Store, ear: Ear, path: Path) -> None:
        """Furnish it."""
        self.store = store
        self.ear = ear
        self.path = path
        self.telemetry = Telemetry(ear)
        self.provider = Provider()
        self.tick = timedelta(milliseconds=30)
        self.slept: list[float] = []
        self.skipped = 0.0  # seconds that a test has let pass
        self.pools: list[Pool] = []

    def monotonic(self) -> float:
        """Tell the time, with what was skipped."""
        return time.monotonic() + self.skipped

    async def sleep(self, seconds: float) -> None:
        """Note the wait and skip it."""
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def pool(self, *, build: Build | None = None, sleep: Sleep | None = None, **options: object) -> Pool:
        """Make a pool of one worker that does not sleep."""
        given = {"workers": 1, "poll_interval": timedelta(milliseconds=50), **options}
        pool = Pool(
            self.store,
            build or (lambda _: self.provider),
            process=HostLiveness().me(),
            options=WorkerOptions(**given),  # type: ignore[arg-type]  # the options of a test
            telemetry=self.telemetry,
            timing=Timing(sleep=sleep or self.sleep, chance=lambda: 0.5, monotonic=self.monotonic),
        )
        self.pools.append(pool)
        return pool

    async def declare(self, name: str = "notes", *, model: str = "", retry: RetryPolicy = QUICK) -> None:
        """Declare a collection."""
        embedder = EmbedderName(provider="fake", model=model)
        await self.store.declare(Declaration(name=name, embedder=embedder, retry=retry))

    async def put(self, texts: Sequence[str], collection: str = "notes") -> None:
        """Put records r0, r1, ... with these texts."""
        records = [NewRecord(id=RecordId(f"r{n}"), text=text) for n, text in enumerate(texts)]
        await self.store.put(collection, records)

    async def counts(self, collection: str = "notes") -> Counts:
        """Count the jobs of a collection."""
        return (await self.store.counts())[collection]

    async def jobs(self, status: JobStatus | None = None) -> Sequence[Job]:
        """List jobs."""
        return (await self.store.jobs(JobFilter(status=status), limit=1000)).items

    async def beaten(self, pool: Pool) -> None:
        """Wait until the registry has every worker of a pool, with a report of its own."""
        async with asyncio.timeout(PATIENCE):
            before = {worker.info.id: worker.seen_at for worker in await self.store.workers(heartbeat=self.tick)}
            seen: dict[object, object] = {}
            while any(seen.get(worker) in {None, before.get(worker)} for worker in pool.workers):
                await self.store.wait_for_work(timedelta(milliseconds=10))
                seen = {worker.info.id: worker.seen_at for worker in await self.store.workers(heartbeat=self.tick)}

    async def settled(self, collection: str = "notes", **expected: int) -> Counts:
        """Wait until the counts are as expected."""

        async def as_expected() -> bool:
            counts = await self.counts(collection)
            return all(getattr(counts, name) == value for name, value in expected.items())

        await self.ear.until(as_expected)
        return await self.counts(collection)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    ear = Ear()
    path = tmp_path / "queue.db"
    store = await SqliteStore.open(path, telemetry=Telemetry(ear))
    made = House(store, ear, path)
    yield made
    for pool in made.pools:
        await pool.stop(timedelta(seconds=1))
    await store.close()


@pytest.fixture
def postgres_template(installed: str) -> str:
    """Copy a database that has the schema."""
    return installed


@pytest.fixture(params=["sqlite", "postgres"])
async def any_house(request: pytest.FixtureRequest, house: House) -> AsyncIterator[House]:
    """A house on each database in turn."""
    if request.param == "sqlite":
        yield house
        return
    url = request.getfixturevalue("postgres_url")
    own, house.store = house.store, await PostgresStore.open(url, telemetry=house.telemetry)
    yield house
    for pool in house.pools:
        await pool.stop(timedelta(seconds=1))
    await house.store.close()
    house.store = own


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def make_gate() -> type[Gate]:
    return Gate


@pytest.fixture
def make_provider() -> type[Provider]:
    return Provider
