"""What a record costs on PostgreSQL's disk: text, job, vector and index; and how many connections processes hold."""

import asyncio
import os
import sys
from datetime import timedelta

from figure import Figure, Scale, plain
from postgres.ground import NAME, ask, connected, database, declare, ones, opened, put, records, server, settle_all
from texts import text

DIMENSIONS = 384
PAUSE = timedelta(seconds=0.2)
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

# Bytes of a table with its indexes and what is stored beside it.
SIZES = """
SELECT pg_total_relation_size(('embedq.' || $1)::regclass)
"""
INDEX = "SELECT pg_relation_size('embedq.vector_1_nearest')"


async def measure(scale: Scale) -> list[Figure]:
    """Measure bytes per record, then the connections of one worker process with 4 workers."""
    count = scale.pick(30_000, 21_000)  # enough for a search index
    with server() as running, database(running) as url:
        async with opened(url) as store, connected(url) as db:
            collection = await declare(store, DIMENSIONS)
            await put(store, records(count))
            await settle_all(store, ask(collection), ones(DIMENSIONS))
            while await store.finish():
                continue
            await db.execute("VACUUM FULL embedq.record, embedq.job, embedq.vector_1")
            record, job, vector = [
                int(await db.fetchval(SIZES, name)) / count for name in ("record", "job", "vector_1")
            ]
            index = await db.fetchval(INDEX) / count
        held = await _connections(url)
    length = sum(len(text(number)) for number in range(1000)) / 1000
    return [
        plain(f"PostgreSQL, a record with its words, text of {length:.0f} bytes", record, "bytes"),
        plain("PostgreSQL, a finished job", job, "bytes"),
        plain(f"PostgreSQL, a vector of {DIMENSIONS} floats", vector - index, "bytes"),
        plain("PostgreSQL, its share of the HNSW index", index, "bytes"),
        plain("PostgreSQL, connections of a process with 4 workers", held, ""),
    ]


async def _connections(url: str) -> int:
    """Count what a working process holds after it has worked."""
    environment = {**os.environ, "EMBEDQ_URL": url, "EMBEDQ_EMBEDDER": f"fake@{DIMENSIONS}"}
    command = (sys.executable, "-m", "embedq", "work", "--workers", "4")
    async with opened(url) as store, connected(url) as db:
        await put(store, records(2000, salt="more-"))
        mine = await db.fetchval(CONNECTIONS)
        quiet = asyncio.subprocess.DEVNULL
        worker = await asyncio.create_subprocess_exec(*command, env=environment, stdout=quiet, stderr=quiet)
        try:
            while (await store.counts())[NAME].pending:
                await store.wait_for_work(PAUSE)
            return int(await db.fetchval(CONNECTIONS)) - int(mine)
        finally:
            worker.terminate()
            await worker.wait()
