"""The whole way with the local model, beside the embedder called directly on the same texts in the same batches.

The embedder alone is called by as many callers as there are workers, since that is faster than one after the other.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import fill
from crew import crew
from embedq.embedders import build
from embedq.embedding import Purpose
from embedq.model import EmbedderName
from embedq.ports import Embedder
from figure import Figure, Scale, beside, taking_turns
from place import folder

BATCH = 100
WORKERS = 2
LOCAL = EmbedderName(provider="local", model="")


async def measure(scale: Scale) -> list[Figure]:
    """Measure texts per second."""
    texts, rounds = scale.pick(1_600, 400), scale.pick(3, 3)
    embedder = build(LOCAL, environment=os.environ)
    rows = [fill.rows(texts, salt=f"{number}-") for number in range(rounds)]
    direct, whole = iter(rows), iter(rows)
    with folder() as place:
        path = place / "local.db"
        await fill.declare(path, "local")
        async with crew(path, embedder="local", workers=WORKERS) as workers:
            await _warm(embedder, path)
            await workers.work_off(BATCH)

            async def alone() -> float:
                return texts / await _embed(embedder, [text for _, text in next(direct)])

            async def ours() -> float:
                fill.pending(path, next(whole))
                return texts / await workers.work_off(texts)

            references, values = await taking_turns(rounds, alone, ours)
    await embedder.close()
    what = "the embedder alone, on the same texts in the same batches"
    return [beside("whole way, local model", values, references, "texts/s", what=what, at_least=0.95)]


async def _warm(embedder: Embedder, path: Path) -> None:
    warm = fill.rows(BATCH, salt="warm-")
    fill.pending(path, warm)
    await _embed(embedder, [text for _, text in warm])


async def _embed(embedder: Embedder, texts: Sequence[str]) -> float:
    batches = iter([texts[first : first + BATCH] for first in range(0, len(texts), BATCH)])

    async def caller() -> None:
        for batch in batches:
            await embedder.embed(batch, Purpose.DOCUMENT)

    started = perf_counter()
    await asyncio.gather(*(caller() for _ in range(WORKERS)))
    return perf_counter() - started
