"""Waiting for work: a worker that found nothing is woken when it is worth asking again."""

import asyncio
from datetime import timedelta
from time import monotonic

from embedq.ports import Store
from embedq.testing.stores.stage import NOON, Stage, retry, take, take_one, write

SOON = 3  # seconds: less than any store's poll


class WaitingFacts(Stage):
    """Tests of waiting."""

    async def test_waiting_for_work_ends_when_there_is_some(self, store: Store, other: Store) -> None:
        """A worker that waits is woken by a put in another process, long before its timeout."""
        waiting = await _waiting(store)

        await write(other, "A")

        async with asyncio.timeout(SOON):
            await waiting
        assert len(await take(store)) == 1

    async def test_waiting_for_work_ends_when_a_job_is_delayed(self, store: Store) -> None:
        """A task that waits for all workers of a process must learn when the job that failed in one of them is due."""
        await write(store, "A")
        lease = await take_one(store)
        waiting = await _waiting(store)

        await store.settle([retry(lease)], now=NOON)

        async with asyncio.timeout(SOON):
            await waiting


async def _waiting(store: Store) -> asyncio.Task[None]:
    """Start a wait after an empty lease, once earlier signals have been delivered."""
    quiet, spent = timedelta(seconds=0.3), 0.0
    while spent < quiet.total_seconds():
        assert await take(store) == []
        began = monotonic()
        await store.wait_for_work(quiet)
        spent = monotonic() - began
    return asyncio.create_task(store.wait_for_work(timedelta(seconds=60)))
