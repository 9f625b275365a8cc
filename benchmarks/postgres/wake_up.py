"""Wake-up on PostgreSQL: how long an idle queue takes from commit to lease, with the worker in another process.

The worker is the real pool. Both moments are the database's own: a job notes when its put began, a little before the
commit, and when it was leased. Before each put the queue has been idle for longer than any ring is held back.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from embedq.app import load, start
from embedq.model import JobStatus
from embedq.stores.postgres import PostgresStore
from figure import Figure, Scale, p95, plain
from postgres.ground import NAME, database, declare, opened, records, server
from postgres.hands import Drain, hands

CALM = 0.13  # seconds between puts
LOOK = 0.02
DIMENSIONS = 384


async def measure(scale: Scale) -> list[Figure]:
    """Measure milliseconds."""
    puts = scale.pick(200, 40)
    with server() as running, database(running) as url:
        async with opened(url) as store, hands(1, working, url):
            await declare(store, DIMENSIONS)
            await _wake(store, "first")  # it also opens connections
            spans = [await _wake(store, str(number)) for number in range(puts)]
    return [plain("PostgreSQL, wake-up from an idle queue, commit to lease, p95", p95(spans), "ms", at_most=20)]


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Drain]:
    """Let the real pool work until the process is told to end."""
    settings = load(url=url, embedder=f"fake@{DIMENSIONS}", workers=2)
    async with start(settings, quiet=True) as app, app.working(2):

        async def drain() -> int:
            return 0

        yield drain


async def _wake(store: PostgresStore, salt: str) -> float:
    """Put one record into the idle queue; answer with the milliseconds until it was leased."""
    await asyncio.sleep(CALM)
    [receipt] = await store.put(NAME, records(1, salt=f"{salt}-"))
    assert receipt.job_id is not None, "no job was queued"
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(LOOK)
            found = await store.job(receipt.job_id)
            if found is not None and found.status is JobStatus.COMPLETED and found.started_at is not None:
                return (found.started_at - found.created_at).total_seconds() * 1000
