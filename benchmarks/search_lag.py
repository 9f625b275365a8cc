"""A committed vector is found by a search in another process: how soon, with 100,000 vectors in the index.

The other process searches without a break for the vector that is about to be committed. The watch starts when `settle`
has returned, so when the commit is durable, and stops when the search that finds it has answered.
"""

import asyncio
import hashlib
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

import fill
from embedq.embedders.fake import vectors_of
from embedq.model import Ask, Done, NewRecord, Query, RecordId, SpaceId, Vector, WorkerId
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, plain
from place import HOME, folder

ASK = Ask(worker=WorkerId("bench"), spaces=[SpaceId("fake:@0/1")], limit=1, span=timedelta(minutes=5))
READY, SOUGHT = "ready", "sought"


async def measure(scale: Scale) -> list[Figure]:
    """Measure the worst of some new and some changed records."""
    size, finds = scale.pick(100_000, 20_000), scale.pick(40, 20)
    with folder() as place:
        path = place / "search.db"
        await fill.declare(path)
        rows = fill.rows(size)
        fill.embedded(path, rows, vectors_of([hashlib.sha256(text.encode()).digest() for _, text in rows]))
        spans = await _find(path, finds)
    name = f"commit to found by search in another process, worst of {finds}, {size:,} vectors"
    return [plain(name, max(spans), "s", at_most=0.3)]


async def _find(path: Path, finds: int) -> list[float]:
    store = await SqliteStore.open(path)
    command = (sys.executable, str(HOME / "search_lag.py"), str(path))
    seeker = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert seeker.stdin is not None
    assert seeker.stdout is not None
    assert await _line(seeker.stdout) == READY
    spans = []
    for number in range(finds):
        id_ = RecordId(f"new-{number}" if number % 2 else str(number))  # every other one replaces a vector
        seeker.stdin.write(f"{id_} {number}\n".encode())
        assert await _line(seeker.stdout) == SOUGHT
        committed = await _store_vector(store, id_, number)
        spans.append(float(await _line(seeker.stdout)) - committed)
    seeker.stdin.close()
    await seeker.wait()
    await store.close()
    return spans


async def _store_vector(store: SqliteStore, id_: RecordId, number: int) -> float:
    await store.put(fill.NAME, [NewRecord(id=id_, text=f"something new, number {number}")])
    leases = (await store.lease(ASK)).leases
    await store.settle([Done(lease, _vector(number)) for lease in leases])
    return time.monotonic()  # on Linux one clock for all processes


async def _line(stream: asyncio.StreamReader) -> str:
    return (await asyncio.wait_for(stream.readline(), 60)).decode().strip()


def _vector(number: int) -> Vector:
    vector = np.random.default_rng(number).standard_normal(fill.DIMENSIONS).astype(np.float32)
    unit: Vector = vector / np.linalg.norm(vector)
    return unit


async def seek(path: Path) -> None:
    """Search for each vector that is asked for until it is found; the other process's whole life."""
    store = await SqliteStore.open(path)
    await store.search_vector(fill.NAME, _vector(0), Query(k=1))
    print(READY, flush=True)
    for line in iter(sys.stdin.readline, ""):
        id_, number = line.split()
        print(SOUGHT, flush=True)
        while (await store.search_vector(fill.NAME, _vector(int(number)), Query(k=1)))[0].id != id_:
            continue
        print(time.monotonic(), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(seek(Path(sys.argv[1])))
