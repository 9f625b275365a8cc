"""Bulk put on PostgreSQL: new records in batches of 1,000, beside a raw COPY of the same rows.

The raw side copies finished rows, hashes and all, in batches of 1,000 too, into the record table alone: a table made
like it, with its keys and its index of words. It checks nothing, looks nothing up, queues nothing and answers nothing.
A second one has no words, which shows what those cost. Each turn has a database of its own.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from time import perf_counter

from embedq.model import NewRecord
from embedq.testing.postgres import PostgresServer
from figure import Figure, Scale, beside, taking_turns
from postgres.ground import NAME, STEP, connected, database, declare, opened, put, records, server

COLUMNS = ("rid", "collection", "created_at", "updated_at", "hash", "id", "text", "attributes")
LIKE = "CREATE TABLE alone (LIKE embedq.record INCLUDING ALL)"
WORDLESS = "ALTER TABLE alone DROP COLUMN words"

Row = tuple[int, int, datetime, datetime, bytes, str, str, str]


async def measure(scale: Scale) -> list[Figure]:
    """Measure records per second."""
    size, rounds = scale.pick(100_000, 10_000), scale.pick(5, 3)
    wanted = records(size)
    rows = _rows(wanted)
    with server() as running:

        async def ours() -> float:
            return size / await _put(running, wanted)

        async def copied() -> float:
            return size / await _copy(running, rows, words=True)

        async def wordless() -> float:
            return size / await _copy(running, rows, words=False)

        put_, alone, without = await taking_turns(rounds, ours, copied, wordless)
    name, what = "PostgreSQL, bulk put of new records", "raw COPY of the same rows into the record table alone"
    return [
        beside(name, put_, alone, "records/s", what=what, at_least=0.35),
        beside(f"{name}, words and all", put_, without, "records/s", what=f"{what}, without its words"),
    ]


async def _put(running: PostgresServer, wanted: Sequence[NewRecord]) -> float:
    with database(running) as url:
        async with opened(url) as store, connected(url) as db:
            await declare(store, 4)
            await store.put(NAME, records(1, salt="warm-"))
            await db.execute("CHECKPOINT")
            started = perf_counter()
            await put(store, wanted)
            return perf_counter() - started


async def _copy(running: PostgresServer, rows: Sequence[Row], *, words: bool) -> float:
    with database(running) as url:
        async with opened(url) as store, connected(url) as db:
            await declare(store, 4)
            await db.execute(LIKE)
            if not words:
                await db.execute(WORDLESS)
            await db.execute("CHECKPOINT")
            started = perf_counter()
            for first in range(0, len(rows), STEP):
                await db.copy_records_to_table("alone", records=rows[first : first + STEP], columns=COLUMNS)
            return perf_counter() - started


def _rows(wanted: Sequence[NewRecord]) -> list[Row]:
    now = datetime.now(UTC)
    texts = [(record.id, record.text or "") for record in wanted]
    return [
        (number, 1, now, now, hashlib.sha256(text.encode()).digest(), id_, text, "{}")
        for number, (id_, text) in enumerate(texts, start=1)
    ]
