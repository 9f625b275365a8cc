"""What a lease costs beside a million finished jobs, and beside a million that wait for tomorrow."""

import shutil
import sqlite3
import time
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import fill
from embedq.embedders.fake import vectors_of
from embedq.model import Ask, Done, SpaceId, WorkerId
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, beside
from place import folder, raw

BATCH = 100
DAY = 86_400_000
ASK = Ask(worker=WorkerId("bench"), spaces=[SpaceId("fake:@0/1")], limit=BATCH, span=timedelta(minutes=5))

NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
RECORDS = f"""
{NUMBERS} INSERT INTO embedq_record (rid, collection, id, hash, text, attributes, created_at, updated_at)
SELECT ?2 + i, 1, 'old-' || i, randomblob(32), 'An old note, number ' || i, '{{}}', ?3, ?3 FROM n
"""
JOBS = """
INSERT INTO embedq_job (record, collection, space, status, priority, queued_at, hash, created_at, started_at,
  completed_at, attempts)
SELECT rid, 1, 1, ?1, 1, created_at, hash, created_at, created_at, ?2, ?3 FROM embedq_record WHERE rid > ?4
"""
LATER = "INSERT INTO embedq_later (due, job, since) SELECT ?1 + id % 1000, id, ?2 FROM embedq_job WHERE record > ?3"


async def measure(scale: Scale) -> list[Figure]:
    """Measure the milliseconds of a lease of 100, alone and after settling the batch before."""
    others, leases = scale.pick(1_000_000, 100_000), scale.pick(150, 90)
    with folder() as place:
        paths = [place / name for name in ("none.db", "finished.db", "waiting.db")]
        await fill.declare(paths[0])
        fill.pending(paths[0], fill.rows(2 * leases * BATCH))
        for path in paths[1:]:
            shutil.copy(paths[0], path)
        _add(paths[1], others, finished=True)
        _add(paths[2], others, finished=False)
        alone, fused = await _lease_in_turns(paths, leases)
    names = (f"{others:,} finished jobs", f"{others:,} jobs due tomorrow")
    return [
        beside(f"{what} beside {name}", times, measured[0], "ms", what="the same without them", at_most=1.2)
        for what, measured in (("lease of 100", alone), ("settle and lease of 100", fused))
        for name, times in zip(names, measured[1:], strict=True)
    ]


def _add(path: Path, count: int, *, finished: bool) -> None:
    db, now = raw(path), time.time_ns() // 1_000_000
    (last,) = db.execute("SELECT max(rid) FROM embedq_record").fetchone()
    db.execute("BEGIN IMMEDIATE")
    db.execute(RECORDS, (count, last, now - DAY))
    db.execute(JOBS, (2 if finished else 0, now - DAY if finished else None, int(not finished), last))
    if not finished:
        db.execute(LATER, (now + DAY, now, last))
    db.execute("COMMIT")
    _count(db, count, finished=finished)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _count(db: sqlite3.Connection, count: int, *, finished: bool) -> None:
    column = "completed" if finished else "open"
    db.execute(f"UPDATE embedq_tally SET {column} = {column} + ?1, records = records + ?1", (count,))


async def _lease_in_turns(paths: list[Path], leases: int) -> tuple[list[list[float]], list[list[float]]]:
    stores = [await SqliteStore.open(path) for path in paths]
    alone: list[list[float]] = [[] for _ in paths]
    fused: list[list[float]] = [[] for _ in paths]
    for turn in range(leases):
        for number in _rotated(len(stores), turn):
            store = stores[number]
            started = perf_counter()
            taken = (await store.lease(ASK)).leases
            alone[number].append((perf_counter() - started) * 1000)
            vectors = vectors_of([lease.hash for lease in taken])
            outcomes = [Done(lease, vector) for lease, vector in zip(taken, vectors, strict=True)]
            started = perf_counter()
            settled = await store.settle(outcomes, then=ASK)
            fused[number].append((perf_counter() - started) * 1000)
            assert len(settled.jobs) == len(settled.next.leases) == BATCH
    for store in stores:
        await store.close()
    return alone, fused


def _rotated(count: int, turn: int) -> list[int]:
    """Begin with another one each turn: who comes first meets another machine than who comes last."""
    return [(turn + number) % count for number in range(count)]
