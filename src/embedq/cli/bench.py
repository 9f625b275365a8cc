"""A small end-to-end benchmark on a temporary database."""

import asyncio
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.text import Text

from embedq.app import App, load, start
from embedq.cli.options import Embedder, Json
from embedq.cli.output import console, nothing, print_json
from embedq.cli.tables import Cell, Column, table
from embedq.embedding import Purpose
from embedq.model import EmbedderName
from embedq.policy.naming import parse_embedder
from embedq.settings import Settings

WORDS = ("loom", "thread", "shuttle", "pattern", "engine", "number", "table", "machine", "letter", "garden", "river")
SINGLES = 50  # writes that are timed one by one
TIMEOUT_SECONDS = 3600.0  # a slow embedder is still measured
BATCH = 100
FIGURES = (
    Column(name="figure"),
    Column(name="value", right=True),
    Column(name=""),
    Column(name="ratio", right=True, worth=2),
    Column(name="beside", worth=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement."""

    name: str
    value: float
    unit: str
    reference: str | None = None
    ratio: float | None = None

    def facts(self) -> dict[str, Any]:
        """Convert it to plain values."""
        ratio = None if self.ratio is None else round(self.ratio, 3)
        return {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "reference": self.reference,
            "ratio": ratio,
        }


def bench(
    *,
    records: Annotated[int, typer.Option("--records", "-n", min=100, max=1_000_000, help="How many records.")] = 2000,
    embedder: Embedder = None,
    as_json: Json = False,
) -> None:
    """Measure writing, embedding and searching on a database of its own, beside a bare loop that does the same."""
    with tempfile.TemporaryDirectory(prefix="embedq-bench-") as folder:
        settings = load(url=f"sqlite:///{Path(folder).resolve()}/bench.db", embedder=embedder)
        with console(errors=True).status(Text(f"{records:,} records through {settings.embedder} …")):
            figures = asyncio.run(_measure(settings, Path(folder), records))
    if as_json:
        print_json([figure.facts() for figure in figures])
    else:
        screen = console()
        screen.print(table(FIGURES, [_row(figure) for figure in figures], width=screen.width))


async def _measure(settings: Settings, folder: Path, records: int) -> list[Figure]:
    texts = [_text(number) for number in range(records)]
    async with start(settings, quiet=True) as app:
        name = parse_embedder(settings.embedder)
        bare = await _bare_loop(app, name, folder / "bare.db", texts)
        async with app.working(settings.workers):
            await _warm(app)
            put, whole = await _whole_way(app, texts)
            writes, ways = await _one_by_one(app)
            searches = await _searches(app)
    return [
        Figure(name="put", value=records / put, unit="records/s"),
        Figure(
            name="put to embedded",
            value=records / whole,
            unit="records/s",
            reference="a bare loop",
            ratio=bare / whole,
        ),
        *_spread("one put", writes),
        *_spread("one put to embedded", ways),
        *_spread("one search", searches),
    ]


def _text(number: int) -> str:
    chosen = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 12)]
    return f"Note {number}: {' '.join(chosen)}."


async def _bare_loop(app: App, name: EmbedderName, path: Path, texts: Sequence[str]) -> float:
    """Embed and store the same texts in a loop without a queue; return its seconds."""
    embedder = await app.embedders.get(app.embedders.canonical(name))
    await embedder.embed(texts[:1], Purpose.DOCUMENT)
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE v(id, text, vector);")
    started = perf_counter()
    for first in range(0, len(texts), BATCH):
        batch = texts[first : first + BATCH]
        rows = (await embedder.embed(batch, Purpose.DOCUMENT)).vectors
        numbers = range(first, first + len(batch))
        with connection:
            connection.executemany(
                "INSERT INTO v VALUES (?, ?, ?)",
                [(number, text, row.tobytes()) for number, text, row in zip(numbers, batch, rows, strict=True)],
            )
    seconds = perf_counter() - started
    connection.close()
    return seconds


async def _warm(app: App) -> None:
    await app.client.put("warm", [{"id": "0", "text": "warm up"}])
    await app.client.wait("warm", ["0"], timeout=TIMEOUT_SECONDS)


async def _whole_way(app: App, texts: Sequence[str]) -> tuple[float, float]:
    started = perf_counter()
    for first in range(0, len(texts), 1000):
        batch = texts[first : first + 1000]
        await app.client.put("bench", [{"id": str(first + n), "text": text} for n, text in enumerate(batch)])
    put = perf_counter() - started
    await app.operator.drain(TIMEOUT_SECONDS)
    return put, perf_counter() - started


async def _one_by_one(app: App) -> tuple[list[float], list[float]]:
    writes, ways = [], []
    for number in range(SINGLES):
        started = perf_counter()
        await app.client.put("single", [{"id": str(number), "text": f"Single {_text(number)}"}])
        writes.append(perf_counter() - started)
        await app.client.wait("single", [str(number)], timeout=TIMEOUT_SECONDS)
        ways.append(perf_counter() - started)
    return writes, ways


async def _searches(app: App) -> list[float]:
    spent = []
    for number in range(SINGLES):
        started = perf_counter()
        await app.client.search("bench", f"{WORDS[number % len(WORDS)]} {number}")
        spent.append(perf_counter() - started)
    return spent


def _spread(name: str, seconds: Sequence[float]) -> list[Figure]:
    late = quantiles(seconds, n=20)[-1]
    return [
        Figure(name=f"{name} p50", value=median(seconds) * 1000, unit="ms"),
        Figure(name=f"{name} p95", value=late * 1000, unit="ms"),
    ]


def _row(figure: Figure) -> tuple[Cell, ...]:
    ratio = nothing() if figure.ratio is None else f"{figure.ratio:.2f}"
    value = f"{figure.value:,.0f}" if figure.unit == "records/s" else f"{figure.value:,.2f}"
    return (figure.name, value, figure.unit, ratio, figure.reference or "")
