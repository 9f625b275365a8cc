"""What an index reads from the database. Every read is short, so that the write-ahead log can be checkpointed."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedq.model import Vector

CHUNK = 2000  # vectors per read
_RECORDS = 10_000  # records per read where no vectors are read
_WITNESSES = 16

_DIMENSIONS = """
SELECT s.dimensions FROM embedq_collection c JOIN embedq_space s ON s.id = ? WHERE c.id = ? AND c.name IS NOT NULL
"""
_STATE = """
SELECT coalesce((SELECT value FROM embedq_control WHERE name = 'identity'), 0),
       coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'embedq_vector'), 0),
       coalesce((SELECT value FROM embedq_control WHERE name = 'forgotten_seq'), 0)
"""
# Both tables are read from an index alone: neither texts nor vectors are touched.
_SEQS = """
SELECT r.id, v.seq FROM embedq_record r LEFT JOIN embedq_vector v ON v.record = r.rid AND v.space = ?
WHERE r.collection = ? AND r.id > ? ORDER BY r.id LIMIT ?
"""
_VECTORS = """
SELECT v.record, v.embedding FROM json_each(?) j CROSS JOIN embedq_vector v ON v.seq = j.value
WHERE v.embedding IS NOT NULL
"""
# A purged record's tombstone has no record any more. Vectors of collections that are not followed here are not read.
_CHANGES = """
SELECT v.seq, v.record, v.space, r.collection, v.embedding IS NULL,
       CASE WHEN r.collection IN (SELECT value FROM json_each(?)) THEN v.embedding END
FROM embedq_vector v LEFT JOIN embedq_record r ON r.rid = v.record WHERE v.seq > ? ORDER BY v.seq LIMIT ?
"""
_NEWEST = "SELECT seq, record, hex(substr(hash, 1, 8)) FROM embedq_vector WHERE seq <= ? ORDER BY seq DESC LIMIT ?"
_AGAIN = """
SELECT seq, record, hex(substr(hash, 1, 8)) FROM embedq_vector WHERE seq IN (SELECT value FROM json_each(?))
"""


class IndexKey(NamedTuple):
    """Which vectors an index contains."""

    collection: int
    space: int

    def __str__(self) -> str:
        """Name the index in events and file names."""
        return f"{self.collection}-{self.space}"


class State(NamedTuple):
    """What a saved index is compared with."""

    identity: int  # of the database; 0: it has none
    last_seq: int  # the newest ever assigned to a vector
    forgotten_seq: int  # tombstones up to here may be gone: no index can follow from before it


class Change(NamedTuple):
    """A row of the vector table, as a follower reads it."""

    seq: int
    rid: int
    space: int
    collection: int | None  # None: the record is purged
    gone: bool
    embedding: bytes | None


class Witness(NamedTuple):
    """A row that a saved index has seen. A database restored from a backup has given its number to another row."""

    seq: int
    rid: int
    hash: str


def dimensions(db: sqlite3.Connection, key: IndexKey) -> int | None:
    """Read the space's dimensions. None: the collection is gone, or no vector was ever stored."""
    row = db.execute(_DIMENSIONS, (key.space, key.collection)).fetchone()
    return row[0] if row else None


def state(db: sqlite3.Connection) -> State:
    """Read the vector table's position."""
    return State(*db.execute(_STATE).fetchone())


def data_version(db: sqlite3.Connection) -> int:
    """Read a number that changes with every commit of another connection."""
    (version,) = db.execute("PRAGMA data_version").fetchone()
    return int(version)


def living(db: sqlite3.Connection) -> set[int]:
    """List the collections that are not dropped."""
    return {row[0] for row in db.execute("SELECT id FROM embedq_collection WHERE name IS NOT NULL")}


def vectors(db: sqlite3.Connection, key: IndexKey) -> Iterator[list[tuple[int, bytes]]]:
    """Read a collection's vectors with their rids, in the order of the file.

    It is not a snapshot: what changes meanwhile has a seq beyond the one that was the newest at the start.
    """
    seqs = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *_seqs(db, key)]))
    for start in range(0, len(seqs), CHUNK):
        yield db.execute(_VECTORS, (json.dumps(seqs[start : start + CHUNK].tolist()),)).fetchall()


def changes(db: sqlite3.Connection, after: int, collections: Sequence[int]) -> list[Change]:
    """Read the next rows by seq, with the vectors of these collections."""
    rows = db.execute(_CHANGES, (json.dumps(collections), after, CHUNK)).fetchall()
    return [Change(*row) for row in rows]


def witnesses(db: sqlite3.Connection, mark: int) -> list[Witness]:
    """Read the newest rows up to a mark."""
    return [Witness(*row) for row in db.execute(_NEWEST, (mark, _WITNESSES))]


def confirmed(db: sqlite3.Connection, seen: Sequence[Witness]) -> bool:
    """Say whether some of these rows still exist, and none differs."""
    seqs = json.dumps([witness.seq for witness in seen])
    found = db.execute(_AGAIN, (seqs,)).fetchall()
    return bool(found) and {Witness(*row) for row in found} <= set(seen)


def matrix_of(blobs: Sequence[bytes], width: int) -> Vector:
    """Read stored float32 rows as a matrix."""
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), width)


def _seqs(db: sqlite3.Connection, key: IndexKey) -> Iterator[NDArray[np.int64]]:
    last = ""
    while rows := db.execute(_SEQS, (key.space, key.collection, last, _RECORDS)).fetchall():
        last = rows[-1][0]
        yield np.array([seq for _, seq in rows if seq is not None], dtype=np.int64)
