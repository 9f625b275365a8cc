"""Filling the product's tables by bare set statements, for references and for large backgrounds."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedq.model import Declaration, EmbedderName
from embedq.stores.sqlite import SqliteStore
from place import raw
from texts import text

NAME = "bench"  # the one collection of a benchmark's file: number 1, of space 1
STEP = 1000
DIMENSIONS = 384
NORMAL_LANE = 2 << 48

RECORDS = """
INSERT INTO embedq_record (rid, collection, id, hash, text, attributes, created_at, updated_at)
SELECT ?1 + e.key, 1, e.value ->> 0, substr(?2, 1 + e.key * 32, 32), e.value ->> 1, '{}', ?3, ?3 FROM json_each(?4) e
"""
JOBS = """
INSERT INTO embedq_job (id, record, collection, space, priority, queued_at, hash, created_at)
SELECT rid, rid, 1, 1, 1, created_at, hash, created_at FROM embedq_record WHERE rid BETWEEN ? AND ?
"""
READY = f"""
INSERT INTO embedq_ready SELECT 1, {NORMAL_LANE} + queued_at, id, collection FROM embedq_job WHERE id BETWEEN ? AND ?
"""
MISSING = "INSERT INTO embedq_missing SELECT 1, rid FROM embedq_record WHERE rid BETWEEN ? AND ?"
WORDS = "INSERT INTO embedq_words_1_1 (rowid, text) SELECT rid, text FROM embedq_record WHERE rid BETWEEN ? AND ?"
TALLY = "UPDATE embedq_tally SET open = open + ?1, records = records + ?1, missing = missing + ?1"

VECTORS = (
    "INSERT INTO embedq_vector (record, space, hash, embedding) SELECT rid, 1, hash, ? FROM embedq_record WHERE rid = ?"
)
COMPLETE = "UPDATE embedq_job SET status = 2, started_at = created_at, completed_at = created_at WHERE status = 0"
TALLY_DONE = "UPDATE embedq_tally SET open = 0, completed = open, missing = 0"

Row = tuple[str, str]


async def declare(path: Path, embedder: str = "fake") -> None:
    """Create a file with the benchmark's collection."""
    store = await SqliteStore.open(path)
    known = await store.declare(Declaration(name=NAME, embedder=EmbedderName(provider=embedder, model="")))
    await store.learn(known.space.id, DIMENSIONS)
    await store.close()


def rows(count: int, *, salt: str = "") -> list[Row]:
    """Make ids and texts."""
    return [(f"{salt}{number}", text(number, salt=salt)) for number in range(count)]


def pending(path: Path, wanted: Sequence[Row]) -> int:
    """Fill records that wait to be embedded, in the order of `wanted`; answer with the first one's number."""
    db = raw(path)
    (highest,) = db.execute("SELECT coalesce(max(rid), 0) FROM embedq_record").fetchone()
    for start in range(0, len(wanted), STEP):
        db.execute("BEGIN IMMEDIATE")
        put(db, wanted[start : start + STEP], highest + 1 + start)
        db.execute("COMMIT")
    db.close()
    return int(highest) + 1


def put(db: sqlite3.Connection, wanted: Sequence[Row], first: int) -> None:
    """Fill everything that a put fills, by one statement per table."""
    last, now = first + len(wanted) - 1, time.time_ns() // 1_000_000
    hashes = b"".join(hashlib.sha256(text_.encode()).digest() for _, text_ in wanted)
    db.execute(RECORDS, (first, hashes, now, json.dumps(wanted, ensure_ascii=False)))
    db.execute(JOBS, (first, last))
    db.execute(READY, (first, last))
    db.execute(MISSING, (first, last))
    db.execute(WORDS, (first, last))
    db.execute(TALLY, (len(wanted),))


def embedded(path: Path, wanted: Sequence[Row], vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    """Fill records that have their vectors already."""
    first = pending(path, wanted)
    db = raw(path)
    db.execute("BEGIN IMMEDIATE")
    db.executemany(VECTORS, ((vector.tobytes(), first + number) for number, vector in enumerate(vectors)))
    db.execute(COMPLETE)
    db.execute("DELETE FROM embedq_ready")
    db.execute("DELETE FROM embedq_missing")
    db.execute(TALLY_DONE)
    db.execute("COMMIT")
    db.close()
