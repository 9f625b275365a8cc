"""The queue alone: lease and complete, no vectors written, beside a bare loop on one table.

What is timed: the product's store API from an event loop (`settle(done, then=next ask)`, durable when it returns), over
jobs of records whose vectors are current and that were armed by force. Such a job is completed without a vector, so
that nothing but the queue is written. Texts and hashes are still read and handed out, as a lease needs them.

The bare loop has one table and one index, and pays two commits per batch: one to lease, one to finish.
"""

import asyncio
import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import numpy as np

from embedq.model import Ask, Collection, Declaration, Done, EmbedderName, NewRecord, RecordId, WorkerId
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, beside, taking_turns
from place import folder, raw
from texts import text

BATCH = 100
WORKERS = 2  # the default of EMBEDQ_WORKERS
DIMENSIONS = 4  # the vectors are only there: small, since the queue is what is measured

TABLE = """
CREATE TABLE job (id INTEGER PRIMARY KEY, status INTEGER NOT NULL, due INTEGER NOT NULL, token INTEGER NOT NULL,
  worker TEXT, until INTEGER, completed_at INTEGER, text TEXT NOT NULL, hash BLOB NOT NULL)
"""
INDEX = "CREATE INDEX job_due ON job (status, due)"
LEASE = """
UPDATE job SET status = 1, token = token + 1, worker = 'w', until = ?
WHERE id IN (SELECT id FROM job WHERE status = 0 ORDER BY due LIMIT 100) RETURNING id, token, text, hash
"""
FINISH = "UPDATE job SET status = 2, completed_at = ? WHERE id IN (SELECT value FROM json_each(?))"


async def measure(scale: Scale) -> list[Figure]:
    """Measure jobs per second."""
    jobs, rounds = scale.pick(20_000, 5_000), scale.pick(7, 3)
    with folder() as place:
        store = await SqliteStore.open(place / "queue.db")
        bare = _bare(place / "raw.db", jobs)
        try:
            collection = await _prepare(store, jobs)

            async def ours() -> float:
                await _arm(store, jobs)
                return await _drain(store, collection, jobs, workers=WORKERS)

            async def alone() -> float:
                await _arm(store, jobs)
                return await _drain(store, collection, jobs, workers=1)

            async def raws() -> float:
                return _drain_bare(bare, jobs)

            references, values, singles = await taking_turns(rounds, raws, ours, alone)
        finally:
            await store.close()
            bare.close()
    what = "bare sqlite3 loop: lease 100, commit, finish 100, commit"
    return [
        beside("queue alone: lease and complete, two workers", values, references, "jobs/s", what=what, at_least=0.9),
        beside("queue alone: one worker, its hand-overs uncovered", singles, references, "jobs/s", what=what),
    ]


async def _prepare(store: SqliteStore, jobs: int) -> Collection:
    """Write records and give each a vector."""
    name = EmbedderName(provider="fake", model="", dimensions=DIMENSIONS)
    collection = await store.declare(Declaration(name="bench", embedder=name))
    await store.learn(collection.space.id, DIMENSIONS)
    for first in range(0, jobs, 1000):
        records = [NewRecord(id=RecordId(str(number)), text=text(number)) for number in range(first, first + 1000)]
        await store.put("bench", records)
    one, ask = np.ones(DIMENSIONS, np.float32), _ask(collection)
    leases = (await store.lease(ask)).leases
    while leases:
        leases = (await store.settle([Done(lease, one) for lease in leases], then=ask)).next.leases
    return collection


async def _arm(store: SqliteStore, jobs: int) -> None:
    for first in range(0, jobs, 1000):
        await store.enqueue("bench", [RecordId(str(number)) for number in range(first, first + 1000)], force=True)


async def _drain(store: SqliteStore, collection: Collection, jobs: int, *, workers: int) -> float:
    started = perf_counter()
    done = sum(await asyncio.gather(*(_work(store, _ask(collection)) for _ in range(workers))))
    spent = perf_counter() - started
    assert done == jobs, f"{done} of {jobs} jobs were completed"
    return jobs / spent


async def _work(store: SqliteStore, ask: Ask) -> int:
    """Lease and complete until nothing is left; answer with how many jobs it were."""
    done = 0
    leases = (await store.lease(ask)).leases
    while leases:
        settled = await store.settle([Done(lease) for lease in leases], then=ask)
        done += len(settled.jobs)
        leases = settled.next.leases
    return done


def _ask(collection: Collection) -> Ask:
    return Ask(worker=WorkerId("bench"), spaces=[collection.space.id], limit=BATCH, span=timedelta(minutes=5))


def _bare(path: Path, jobs: int) -> sqlite3.Connection:
    db = raw(path)
    db.execute(TABLE)
    db.execute(INDEX)
    rows = ((number, 2, number, text(number), b"h" * 32) for number in range(jobs))
    db.execute("BEGIN")
    db.executemany("INSERT INTO job (id, status, due, token, text, hash) VALUES (?, ?, ?, 0, ?, ?)", rows)
    db.execute("COMMIT")
    return db


def _drain_bare(db: sqlite3.Connection, jobs: int) -> float:
    db.execute("UPDATE job SET status = 0, completed_at = NULL, worker = NULL")
    done = 0
    started = perf_counter()
    while True:
        db.execute("BEGIN IMMEDIATE")
        leased = db.execute(LEASE, (done,)).fetchall()
        db.execute("COMMIT")
        if not leased:
            break
        db.execute("BEGIN IMMEDIATE")
        done += db.execute(FINISH, (done, json.dumps([row[0] for row in leased]))).rowcount
        db.execute("COMMIT")
    spent = perf_counter() - started
    assert done == jobs, f"{done} of {jobs} jobs were completed"
    return jobs / spent
