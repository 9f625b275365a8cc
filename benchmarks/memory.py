"""Memory of a worker process at rest on a file with 100,000 embedded records."""

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import fill
import process
from embedq.embedders import build
from embedq.embedders.fake import vectors_of
from embedq.model import EmbedderName, EmbeddingStatus, NewRecord, RecordId
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, plain
from place import HOME, folder

AT_REST = 3.0  # seconds after the last work


async def measure(scale: Scale) -> list[Figure]:
    """Measure with the fake embedder, and with the local model beside a process that holds nothing but the model."""
    size = scale.pick(100_000, 20_000)
    rows = fill.rows(size)
    vectors = vectors_of([hashlib.sha256(text.encode()).digest() for _, text in rows])
    held = {}
    with folder() as place:
        for embedder in ("fake", "local"):
            path = place / f"{embedder}.db"
            await fill.declare(path, embedder)
            fill.embedded(path, rows, vectors)
            held[embedder] = await _resting(path, embedder)
    model = await asyncio.to_thread(_model)
    name = f"memory of a worker at rest, {size:,} records"
    return [
        plain(f"{name}, fake embedder", held["fake"], "MB", at_most=400),
        plain(
            f"{name}, beside the local model",
            held["local"] - model,
            "MB",
            at_most=400,
            reference=model,
            what="a process that holds the model alone",
        ),
    ]


async def _resting(path: Path, embedder: str) -> float:
    """Let a worker embed one record, so that its model is loaded, and rest."""
    store = await SqliteStore.open(path)
    with process.embedq(path, "work", "--embedder", embedder) as child:
        await process.workers_ready(store, 2, child)
        await store.put(fill.NAME, [NewRecord(id=RecordId("last"), text="the last record")])
        while (await store.get(fill.NAME, [RecordId("last")]))[0].embedding_status is not EmbeddingStatus.EMBEDDED:
            await asyncio.sleep(0.1)
        await asyncio.sleep(AT_REST)
        megabytes = process.resident_megabytes(child.pid)
    await store.close()
    return megabytes


def _model() -> float:
    command = [sys.executable, str(HOME / "memory.py")]
    return float(subprocess.run(command, check=True, capture_output=True, timeout=process.PATIENCE).stdout)


async def hold() -> None:
    """Load the model, embed one text and tell the memory it takes; the other process's whole life."""
    embedder = build(EmbedderName(provider="local", model=""), environment=os.environ)
    await embedder.embed(["the last record"])
    time.sleep(AT_REST)  # noqa: ASYNC251 nothing else runs here
    print(process.resident_megabytes(os.getpid()))


if __name__ == "__main__":
    asyncio.run(hold())
