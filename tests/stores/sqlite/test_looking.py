"""A caller that only looks changes no byte of a file, and leaves none beside it."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from embedq.errors import EmbedqError, NotFound, StoreUnusable
from embedq.stores.sqlite import SqliteCorpusStore, SqliteJobStore, SqliteStore
from embedq.stores.sqlite.schema import migrations, statements

WRITES = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE theirs (id); INSERT INTO theirs VALUES (1)")
"""
KILLED = f"{WRITES}os.kill(os.getpid(), 9)"
INSTALLED = """
import os, sys
from pathlib import Path
from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.schema import migrate
db = connect(Path(sys.argv[1]), create=True)
migrate(db, Path(sys.argv[1]))
os.kill(os.getpid(), 9)
"""
OPEN = f"{WRITES}print(flush=True); sys.stdin.read()"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def theirs(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        for number in range(20):
            db.execute(f"CREATE TABLE theirs_{number} (id INTEGER PRIMARY KEY, body TEXT)")
        db.execute("INSERT INTO theirs_0 (body) VALUES ('ours alone')")
        db.commit()


def in_use(path: Path) -> None:
    """Leave a log that is not in the file yet, as a killed application does."""
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert path.with_name("any.db-wal").stat().st_size > 0


def of_version_one(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in statements(migrations()[0][1]):
            db.execute(statement)
        db.execute("UPDATE embedq_control SET value = 1 WHERE name = 'schema'")
        db.commit()


KINDS: dict[str, tuple[Callable[[Path], object], type[EmbedqError], str]] = {
    "another's, with a log": (lambda path: theirs(path, "WAL"), NotFound, "has no embedq in it: `embedq init`"),
    "another's, with a journal": (lambda path: theirs(path, "DELETE"), NotFound, "has no embedq in it: `embedq init`"),
    "another's, in use": (in_use, NotFound, "has no embedq in it: `embedq init`"),
    "empty": (Path.touch, NotFound, "is an empty file: `embedq init`"),
    "a text": (lambda path: path.write_text("Dear Ada, " * 100), StoreUnusable, "is not a SQLite database"),
    "a few bytes": (lambda path: path.write_bytes(b"\2"), StoreUnusable, "is not a SQLite database"),
    "older": (of_version_one, StoreUnusable, "has schema 1, this embedq needs .*: run `embedq init`"),
    "a folder": (Path.mkdir, StoreUnusable, "is no file"),
    "a pipe": (os.mkfifo, StoreUnusable, "is no file"),
}


@pytest.mark.parametrize("open_", [SqliteStore.open, SqliteCorpusStore.open, SqliteJobStore.open])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_ours_is_named_and_left_as_it_is(
    tmp_path: Path, kind: str, open_: Callable[..., object]
) -> None:
    """As corpus, as queue and as both: the refusal says what the file is, and folder and bytes are the same after."""
    make, error, said = KINDS[kind]
    make(tmp_path / "any.db")
    before = snapshot(tmp_path) if kind not in {"a folder", "a pipe"} else {}

    with pytest.raises(error, match=said):
        await open_(tmp_path / "any.db", make=False)  # type: ignore[misc]

    assert kind in {"a folder", "a pipe"} or snapshot(tmp_path) == before


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """A file that its application, another process, has open and has just written to."""
    path = tmp_path / "any.db"
    command = [sys.executable, "-c", OPEN, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield path
        process.communicate()


async def test_a_file_that_its_application_has_open_is_left_as_it_is(busy: Path) -> None:
    """Its log and the log's index are not touched either."""
    before = snapshot(busy.parent)

    with pytest.raises(NotFound, match="has no embedq in it"):
        await SqliteStore.open(busy, make=False)

    assert snapshot(busy.parent) == before


@pytest.mark.parametrize("link", [False, True])
async def test_what_is_ours_is_opened_though_it_stands_in_the_log_alone(tmp_path: Path, *, link: bool) -> None:
    """A process was killed when it had just installed it: a reader of the file alone would find nothing."""
    path = tmp_path / "ours.db"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", INSTALLED, str(path)], check=False)
    if link:
        path = tmp_path / "link.db"
        path.symlink_to("ours.db")

    await (await SqliteStore.open(path, make=False)).close()


async def test_a_file_that_is_no_queue_yet_is_not_made_one_by_looking(tmp_path: Path) -> None:
    """It is claimed by whoever may create, and opened by all others afterwards."""
    path = tmp_path / "queue.db"
    await (await SqliteStore.open(path)).close()
    before = snapshot(tmp_path)

    with pytest.raises(StoreUnusable, match="is no queue yet: run `embedq init`"):
        await SqliteJobStore.open(path, make=False)

    assert snapshot(tmp_path)["queue.db"] == before["queue.db"]
    await (await SqliteJobStore.open(path)).close()
    await (await SqliteJobStore.open(path, make=False)).close()
