"""Rows of an existing table, embedded by a provider of 50 ms per call: an attached table beside pgai's vectorizer.

Both ask the same loopback server for 384 floats per row, in processes of their own: first at their defaults (ours 100
rows per call and two workers, pgai's 50 rows and one call at a time), then both with 500 rows and four calls at a time.
pgai's model is one that no tokenizer is known for, which spares it the counting of tokens; it cuts no chunks and builds
no index. Its watch runs from its first call to the last vector, ours from `attach` on.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import asyncpg

import embedq
from embedq.embedders.faults import Faults
from embedq.testing.postgres import PostgresServer
from embedq.testing.provider import EmbeddingProvider
from figure import Figure, Scale, beside, plain, taking_turns
from place import BUILD
from postgres.ground import BATCH, connected, database, server
from texts import text

PGAI = BUILD / "peers" / "pgai" / "bin" / "pgai"
PATIENCE = 300.0  # seconds
LOOK = 0.02  # seconds between two looks at the database
LATENCY = 0.05  # seconds per call
DIMENSIONS = 384
EMBEDDER = f"openai:loopback@{DIMENSIONS}"
MORE_CALLS = 5

TABLE = "CREATE TABLE note (id bigint PRIMARY KEY, body text NOT NULL)"
VECTORIZER = """
SELECT ai.create_vectorizer('note', loading => ai.loading_column('body'), destination => ai.destination_table('noted'),
  embedding => ai.embedding_openai('loopback', {dimensions}, base_url => '{url}'), chunking => ai.chunking_none(),
  scheduling => ai.scheduling_none(), indexing => ai.indexing_none() {processing})
"""
THEIRS = "SELECT count(*) FROM noted"
OURS = "SELECT count(*) FROM embedq.job WHERE status = 2"
WORKERS = "SELECT count(*) FROM embedq.worker WHERE NOT gone"


async def measure(scale: Scale) -> list[Figure]:
    """Measure rows per second."""
    rows, rounds = scale.pick(10_000, 2_000), scale.pick(3, 1)
    figures = []
    with server() as running:
        for settings in (DEFAULTS, LARGE):
            calls: list[int] = []
            ours, theirs = await taking_turns(
                rounds,
                partial(_attached, running, rows, settings, calls),
                partial(_vectorized, running, rows, settings),
            )
            name = f"PostgreSQL, {rows:,} rows of an attached table, 50 ms per call, {settings.name}"
            most = rows / settings.batch + MORE_CALLS
            figures += [
                beside(name, ours, theirs, "rows/s", what="pgai's vectorizer worker", at_least=settings.at_least),
                plain(f"{name}: calls", max(calls), "calls", at_most=most),
            ]
    return figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How both sides are set."""

    name: str
    batch: int
    workers: int
    processing: str  # pgai's
    at_least: float


DEFAULTS = Settings(name="both at their defaults", batch=BATCH, workers=2, processing="", at_least=5)
LARGE = Settings(
    name="both with 500 rows per call and 4 calls at a time",
    batch=500,
    workers=4,
    processing=", processing => ai.processing_default(batch_size => 500, concurrency => 4)",
    at_least=2,
)


async def _attached(running: PostgresServer, rows: int, settings: Settings, calls: list[int]) -> float:
    async with _table(running, rows) as (url, db, provider):
        access: dict[str, Any] = {"openai_api_key": "none", "openai_base_url": provider.base_url}
        async with embedq.open(url, embedder=EMBEDDER, **access) as eq, _working(url, access, settings) as worker:
            await _until(db, WORKERS, settings.workers, worker)
            started = perf_counter()
            await eq.tables.attach("note", key=["id"], text=["body"])
            await _until(db, OURS, rows, worker)
            spent = perf_counter() - started
        calls.append(len(provider.requests))
    return rows / spent


async def _vectorized(running: PostgresServer, rows: int, settings: Settings) -> float:
    async with _table(running, rows) as (url, db, provider):
        await _end_well(await _start([str(PGAI), "install", "-d", url], {}))
        made = VECTORIZER.format(dimensions=DIMENSIONS, url=provider.base_url, processing=settings.processing)
        await db.execute(made)
        command = [str(PGAI), "vectorizer", "worker", "-d", url, "--once", "--log-level", "error"]
        worker = await _start(command, {"OPENAI_API_KEY": "none", "DD_TRACE_ENABLED": "false"})
        async with asyncio.timeout(PATIENCE):
            await provider.asked()
            started = perf_counter()
            await _until(db, THEIRS, rows, worker)
        spent = perf_counter() - started
        await _end_well(worker)
    return rows / spent


@asynccontextmanager
async def _table(
    running: PostgresServer, rows: int
) -> AsyncIterator[tuple[str, asyncpg.Connection, EmbeddingProvider]]:
    """Lend a database with a table of texts, and a provider."""
    with database(running, "rows") as url:
        async with connected(url) as db, EmbeddingProvider(dimensions=DIMENSIONS, faults=Faults(latency=LATENCY)) as on:
            await db.execute("CREATE EXTENSION vector")
            await db.execute(TABLE)
            await db.copy_records_to_table("note", records=[(number, text(number)) for number in range(rows)])
            await db.execute("VACUUM ANALYZE note")
            yield url, db, on


@asynccontextmanager
async def _working(url: str, access: Mapping[str, str], settings: Settings) -> AsyncIterator[Process]:
    """Run our workers as people do."""
    sizes = {"EMBEDQ_BATCH_SIZE": str(settings.batch), "EMBEDQ_WORKERS": str(settings.workers)}
    keys = {name.upper(): value for name, value in access.items()}
    variables = {"EMBEDQ_URL": url, "EMBEDQ_EMBEDDER": EMBEDDER, **sizes, **keys}
    worker = await _start([sys.executable, "-m", "embedq", "work"], variables)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGTERM)
        await asyncio.wait_for(worker.wait(), PATIENCE)


async def _start(command: Sequence[str], variables: dict[str, str]) -> Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EMBED", "OPENAI"))}
    return await asyncio.create_subprocess_exec(
        *command, env=environment | variables, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )


async def _end_well(process: Process) -> None:
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == 0, "pgai ended with an error"


async def _until(db: asyncpg.Connection, counted: str, wanted: int, worker: Process) -> None:
    async with asyncio.timeout(PATIENCE):
        while await db.fetchval(counted) < wanted:
            assert not worker.returncode, "a worker ended with an error"
            await asyncio.sleep(LOOK)
