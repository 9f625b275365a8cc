"""Bulk put with the word index, beside a bare loop that fills the same tables by set statements.

The bare loop starts from the same Python rows, so it hashes the texts and writes them as JSON too: those are columns of
the tables. It checks nothing, looks nothing up and answers nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import embedq
import fill
from embedq.model import NewRecord, RecordId
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, beside, taking_turns
from place import folder


async def measure(scale: Scale) -> list[Figure]:
    """Measure records per second, through the store and through the client."""
    size, rounds = scale.pick(100_000, 10_000), scale.pick(3, 3)
    rows = fill.rows(size)

    async def bare() -> float:
        with folder() as place:
            return size / await _fill(place / "raw.db", rows)

    async def store() -> float:
        with folder() as place:
            return size / await _put_to_store(place / "put.db", rows)

    async def client() -> float:
        with folder() as place:
            return size / await _put_by_client(place / "put.db", rows)

    filled, stored, put = await taking_turns(rounds, bare, store, client)
    what = "bare sqlite3 loop that fills the same tables by set statements"
    return [
        beside("bulk put with FTS5: store", stored, filled, "records/s", what=what, at_least=0.5),
        beside("bulk put with FTS5: Python client", put, filled, "records/s", what=what, at_least=0.5),
    ]


async def _fill(path: Path, rows: Sequence[fill.Row]) -> float:
    await fill.declare(path)
    started = perf_counter()
    fill.pending(path, rows)
    return perf_counter() - started


async def _put_to_store(path: Path, rows: Sequence[fill.Row]) -> float:
    await fill.declare(path)
    store = await SqliteStore.open(path)
    records = [NewRecord(id=RecordId(id_), text=text) for id_, text in rows]
    started = perf_counter()
    for first in range(0, len(records), fill.STEP):
        await store.put(fill.NAME, records[first : first + fill.STEP])
    spent = perf_counter() - started
    await store.close()
    return spent


async def _put_by_client(path: Path, rows: Sequence[fill.Row]) -> float:
    await fill.declare(path)
    async with embedq.open(f"sqlite:///{path}", embedder="fake") as eq:
        records = [{"id": id_, "text": text} for id_, text in rows]
        started = perf_counter()
        for first in range(0, len(records), fill.STEP):
            await eq.put(fill.NAME, records[first : first + fill.STEP])
        return perf_counter() - started
