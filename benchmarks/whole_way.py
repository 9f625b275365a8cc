"""The whole way with the fake embedder: leased, looked up for reuse, embedded, checked, stored, settled.

The product side is the real pool of two workers on a file of waiting records. The bare loop writes the same rows into
the same tables with `executemany`, a commit per 100, from vectors that are made before the watch starts; it leases,
checks and embeds nothing. Beside it, huey's SQLite storage takes tasks that do nothing.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from huey import SqliteHuey

import fill
from crew import crew
from embedq.embedders.fake import vectors_of
from figure import Figure, Scale, beside, taking_turns
from place import folder, raw

BATCH = 100

READ = "SELECT key, job FROM embedq_ready WHERE space = 1 AND job >= ? ORDER BY job"
VECTOR = "INSERT INTO embedq_vector (record, space, hash, embedding) VALUES (?, 1, ?, ?)"
JOB = "UPDATE embedq_job SET status = 2, started_at = ?, completed_at = ?, worker = 1, token = 1 WHERE id = ?"
READY = "DELETE FROM embedq_ready WHERE space = 1 AND key = ? AND job = ?"
MISSING = "DELETE FROM embedq_missing WHERE collection = 1 AND record = ?"


async def measure(scale: Scale) -> list[Figure]:
    """Measure jobs per second."""
    jobs, rounds = scale.pick(20_000, 5_000), scale.pick(5, 3)
    tasks = scale.pick(2_000, 500)
    with folder() as place:
        for name in ("ours.db", "raw.db"):
            await fill.declare(place / name)
        batches = iter([fill.rows(jobs, salt=f"{number}-") for number in range(2 * rounds)])
        async with crew(place / "ours.db", embedder="fake") as workers:

            async def ours() -> float:
                fill.pending(place / "ours.db", next(batches))
                return jobs / await workers.work_off(jobs)

            async def bare() -> float:
                return jobs / _write(place / "raw.db", next(batches))

            async def huey() -> float:
                return tasks / _run_tasks(place / "huey.db", tasks)

            values, written, run = await taking_turns(rounds, ours, bare, huey)
    loop, nothing = (
        "bare executemany loop that writes the same rows",
        "huey, SqliteHuey(fsync=True), tasks that do nothing",
    )
    return [
        beside("whole way, fake embedder", values, written, "jobs/s", what=loop, at_least=0.4),
        beside("whole way, fake embedder, beside huey", values, run, "jobs/s", what=nothing, at_least=3),
    ]


def _write(path: Path, rows: Sequence[fill.Row]) -> float:
    first = fill.pending(path, rows)
    hashes = [hashlib.sha256(text.encode()).digest() for _, text in rows]
    blobs = [vector.tobytes() for vector in vectors_of(hashes)]
    db = raw(path)
    places = db.execute(READ, (first,)).fetchall()
    started = perf_counter()
    for start in range(0, len(rows), BATCH):
        numbers = range(start, start + BATCH)
        db.execute("BEGIN IMMEDIATE")
        db.executemany(VECTOR, [(first + number, hashes[number], blobs[number]) for number in numbers])
        db.executemany(JOB, [(start, start, first + number) for number in numbers])
        db.executemany(READY, places[start : start + BATCH])
        db.executemany(MISSING, [(first + number,) for number in numbers])
        db.execute("COMMIT")
    spent = perf_counter() - started
    db.close()
    return spent


def _run_tasks(path: Path, tasks: int) -> float:
    """Take tasks and run them as huey's consumer does, without its threads and its waiting."""
    huey = SqliteHuey(filename=str(path), fsync=True, results=False)

    def nothing() -> None:
        """Do nothing."""

    task = huey.task()(nothing)
    for _ in range(tasks):
        task()
    started = perf_counter()
    done = 0
    while (taken := huey.dequeue()) is not None:
        huey.execute(taken)
        done += 1
    spent = perf_counter() - started
    assert done == tasks, f"huey ran {done} of {tasks} tasks"
    return spent
