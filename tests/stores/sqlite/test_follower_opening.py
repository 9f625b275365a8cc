"""An index that is opened while others are followed."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np

from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.follower import Follower
from embedq.stores.sqlite.schema import migrate
from embedq.telemetry import Telemetry

NOTES, MAILS, SPACE = 1, 2, 1
EAST = np.array([1, 0, 0, 0], dtype=np.float32)
COLLECTION = "INSERT INTO embedq_collection (name, space, priority, retry, created_at) VALUES (?, 1, 1, '{}', 0)"
RECORD = """
INSERT INTO embedq_record (collection, id, hash, text, attributes, created_at, updated_at)
VALUES (?, ?, x'00', '', '{}', 0, 0)
"""
VECTOR = "INSERT INTO embedq_vector (record, space, hash, embedding) VALUES (?, 1, x'00', ?)"


class Watched(sqlite3.Connection):
    """A connection that lets a test act at the moment it is closed: an index is read, but not followed yet."""

    on_close: Callable[[], object] | None = None

    def close(self) -> None:
        """Close, then act once."""
        super().close()
        act, Watched.on_close = Watched.on_close, None
        if act:
            act()


def put(db: sqlite3.Connection, collection: int, name: str) -> int:
    rid = int(db.execute(RECORD, (collection, name)).lastrowid or 0)
    db.execute(VECTOR, (rid, EAST.tobytes()))
    return rid


def test_a_commit_between_reading_and_following_is_not_missed(tmp_path: Path) -> None:
    """A vector that other indexes have passed already when a new index joins them is found in the new one."""
    path = tmp_path / "notes.db"
    db = connect(path, create=True)
    migrate(db, path)
    db.execute("INSERT INTO embedq_space (provider, model, dimensions) VALUES ('fake', '', 4)")
    db.executemany(COLLECTION, [("notes",), ("mails",)])
    first = put(db, NOTES, "a")
    put(db, MAILS, "a")

    def read() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Watched)

    follower = Follower(read, tmp_path / "index", Telemetry())
    follower.search(MAILS, SPACE, EAST, 5)
    between: list[int] = []

    def commit_and_pass() -> None:
        between.append(put(db, NOTES, "b"))
        follower.search(MAILS, SPACE, EAST, 5)

    Watched.on_close = commit_and_pass
    hits = follower.search(NOTES, SPACE, EAST, 5)

    assert [rid for rid, _ in hits] == [first, *between]
    assert len(between) == 1
    follower.close()
    db.close()
