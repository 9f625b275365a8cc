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
from embedq.embedding import Purpose
from embedq.model import EmbedderName
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, plain
from place import HOME, folder

AT_REST = 3.0  # seconds after the last work


async def measure(scale: Scale) -> list[Figure]:
    """Measure with the fake embedder, and with the local model beside a process that holds nothing but the model."""
    size = scale.pick(100_000, 20_000)
    rows = fill.rows(size)
    with folder() as place:
        await fill.declare(place / "fake.db", "fake")
        fill.pending(place / "fake.db", rows)
        fake = await _resting(place / "fake.db", "fake")
        await fill.declare(place / "local.db", "local")
        vectors = vectors_of([hashlib.sha256(text.encode()).digest() for _, text in rows])
        fill.embedded(place / "local.db", rows, vectors)
        fill.pending(place / "local.db", fill.rows(100, salt="last-"))
        local = await _resting(place / "local.db", "local")
    model = await asyncio.to_thread(_model)
    name, what = f"memory of a worker at rest, {size:,} records", "a process that holds the model alone"
    return [
        plain(f"{name} embedded by it, fake embedder", fake, "MB", at_most=400),
        plain(f"{name}, beside the local model", local - model, "MB", at_most=400, reference=model, what=what),
    ]


async def _resting(path: Path, embedder: str) -> float:
    """Let a worker process embed what waits, and rest."""
    store = await SqliteStore.open(path)
    with process.embedq(path, "work", "--embedder", embedder) as child:
        await process.workers_ready(store, 2, child)
        await process.until(store, lambda counts: not counts.missing)
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
    await embedder.embed(["the last record"], Purpose.DOCUMENT)
    time.sleep(AT_REST)  # noqa: ASYNC251 nothing else runs here
    print(process.resident_megabytes(os.getpid()))


if __name__ == "__main__":
    asyncio.run(hold())
