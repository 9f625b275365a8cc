"""Wake-up: how long an idle queue takes from put to lease, and what being idle costs.

Both moments are the database's own: a job notes when its put began and when it was leased.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import fill
import process
from embedq.app import load, start
from embedq.model import Job, JobId, JobStatus, NewRecord, RecordId
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, p95, plain
from place import folder

CALM = 0.13  # seconds between puts: the queue is idle again, and no period of any watcher divides it


async def measure(scale: Scale) -> list[Figure]:
    """Measure in one process, in two, and at rest."""
    puts, seconds = scale.pick(100, 40), scale.pick(20, 10)
    with folder() as place:
        same = await _same_process(place / "same.db", puts)
        other, idle = await _other_process(place / "other.db", puts, seconds)
    return [
        plain("wake-up, put to lease, same process, p95", p95(same), "ms", at_most=100),
        plain("wake-up, put to lease, another process, p95", p95(other), "ms", at_most=100),
        plain("idle worker process, share of a core", 100 * idle, "%", at_most=0.5),
    ]


async def _same_process(path: Path, puts: int) -> list[float]:
    await fill.declare(path)
    settings = load(url=f"sqlite:///{path}", embedder="fake", workers=2)
    async with start(settings, quiet=True) as app, app.working(2):
        return [await _wake(app.store.put, app.store.job, number) for number in range(puts)]


async def _other_process(path: Path, puts: int, seconds: int) -> tuple[list[float], float]:
    await fill.declare(path)
    store = await SqliteStore.open(path)
    with process.embedq(path, "work", "--embedder", "fake") as child:
        await process.workers_ready(store, 2, child)
        spans = [await _wake(store.put, store.job, number) for number in range(puts)]
        await asyncio.sleep(3)  # upkeep of the start is over, the log is cut short
        before, started = process.cpu_seconds(child.pid), time.monotonic()
        await asyncio.sleep(seconds)
        share = (process.cpu_seconds(child.pid) - before) / (time.monotonic() - started)
    await store.close()
    return spans, share


async def _wake(
    put: Callable[..., Awaitable[object]], job: Callable[[JobId], Awaitable[Job | None]], number: int
) -> float:
    """Put one record into the idle queue; answer with the milliseconds until it was leased."""
    await put(fill.NAME, [NewRecord(id=RecordId(f"w{number}"), text=f"wake up, number {number}")])
    while True:
        await asyncio.sleep(CALM)
        found = await job(JobId(str(number + 1)))
        if found is not None and found.status is JobStatus.COMPLETED and found.started_at is not None:
            return (found.started_at - found.created_at).total_seconds() * 1000
