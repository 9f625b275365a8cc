"""A follower that finds an index saved by another process."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.stores.sqlite.following import SPACE, Process

from embedq.model import Vector
from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.schema import migrate

NOTES = 1
EAST, NORTH = np.array([1, 0, 0, 0], dtype=np.float32), np.array([0, 1, 0, 0], dtype=np.float32)
RECORD = """
INSERT INTO embedq_record (collection, id, hash, text, attributes, created_at, updated_at)
VALUES (1, ?, x'00', '', '{}', 0, 0)
"""
VECTOR = "INSERT OR REPLACE INTO embedq_vector (record, space, hash, embedding) VALUES (?, 1, randomblob(32), ?)"
COLLECTION = """
INSERT INTO embedq_collection (name, space, priority, retry, created_at) VALUES ('notes', 1, 1, '{}', 0)
"""


def put(db: sqlite3.Connection, name: str, vector: Vector) -> int:
    rid = int(db.execute(RECORD, (name,)).lastrowid or 0)
    db.execute(VECTOR, (rid, vector.tobytes()))
    return rid


def installed(path: Path) -> sqlite3.Connection:
    db = connect(path, create=True)
    migrate(db, path)
    db.execute("INSERT INTO embedq_space (provider, model, dimensions) VALUES ('fake', '', 4)")
    db.execute(COLLECTION)
    return db


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    made = installed(path)
    yield made
    made.close()


@pytest.fixture
def process(path: Path) -> Iterator[Process]:
    made = Process(path)
    yield made
    made.follower.close()


@pytest.fixture
def saved(path: Path, db: sqlite3.Connection) -> Path:
    """A database of two notes whose index was saved by a process that is gone; answers with the index's file."""
    put(db, "a", EAST)
    put(db, "b", NORTH)
    process = Process(path)
    process.found(NOTES, EAST)
    process.follower.close()
    return process.folder / "1-1.index"


def test_the_next_process_loads_and_goes_on(db: sqlite3.Connection, saved: Path, process: Process) -> None:
    """A saved index is loaded, and what was committed since is followed."""
    third = put(db, "c", EAST)
    db.execute(VECTOR, (1, None))

    assert process.found(NOTES, EAST) == [third, 2]
    assert [act for act, _ in process.acts] == ["loaded"]
    assert saved.exists()


def test_only_what_changed_enough_is_saved(db: sqlite3.Connection, saved: Path, process: Process) -> None:
    """A share can be asked for; an index that did not change is never written again."""
    before = saved.stat().st_ino
    process.found(NOTES, EAST)
    process.follower.save_all()
    assert saved.stat().st_ino == before
    put(db, "c", EAST)
    process.found(NOTES, EAST)
    process.follower.save_all(least=0.5)
    assert saved.stat().st_ino == before

    process.follower.save_all(least=0.1)

    assert saved.stat().st_ino != before


MISFITS = {
    "another database": "UPDATE embedq_control SET value = value + 1 WHERE name = 'identity'",
    "other dimensions": "UPDATE embedq_space SET dimensions = 5",
    "restored from a backup": "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'embedq_vector'",
    "forgotten": "UPDATE embedq_control SET value = 3 WHERE name = 'forgotten_seq'",
}


@pytest.mark.parametrize(("reason", "change"), MISFITS.items())
def test_an_index_that_does_not_fit_is_refused(
    db: sqlite3.Connection, saved: Path, process: Process, reason: str, change: str
) -> None:
    """Of another database, of other dimensions, beyond the newest vector, or before forgotten deletions: built anew."""
    assert saved.exists()
    db.execute(change)

    process.follower.catch_up(NOTES, SPACE)

    assert [act for act, _ in process.acts][:2] == ["refused", "built"]
    assert reason in process.acts[0][1]


def test_a_database_restored_from_a_backup_does_not_take_the_newer_index(path: Path, tmp_path: Path) -> None:
    """An index saved after the backup is refused, even when the restored file has grown past its mark."""
    db, backup = installed(path), sqlite3.connect(tmp_path / "backup.db")
    first = put(db, "a", EAST)
    db.backup(backup)
    backup.close()
    put(db, "lost", EAST)
    before = Process(path)
    before.found(NOTES, EAST)
    before.follower.close()
    db.close()
    shutil.copy(tmp_path / "backup.db", path)
    restored = connect(path)
    others = [put(restored, name, NORTH) for name in ("x", "y", "z")]

    after = Process(path)
    hits = after.follower.search(NOTES, SPACE, EAST, 9)
    after.follower.close()
    restored.close()

    assert [rid for rid, _ in hits] == [first, *others]
    assert [score for _, score in hits] == pytest.approx([1, 0, 0, 0])
    assert after.acts[0][0] == "refused"


def test_a_damaged_file_is_built_anew_and_replaced(saved: Path, process: Process) -> None:
    """Damage costs a rebuild, and the next save heals the file."""
    saved.write_bytes(saved.read_bytes()[:-3])

    assert process.found(NOTES, EAST) == [1, 2]
    process.follower.save_all()

    assert [act for act, _ in process.acts] == ["refused", "built", "saved"]
