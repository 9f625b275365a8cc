"""Another application's SQLite file: commands that look, or that change what is there, leave it as it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.doors.conftest import Shell

THEIRS = "sqlite:///theirs.db"
LOOKING = [
    ("status",),
    ("status", "--watch"),
    ("jobs",),
    ("collections",),
    ("search", "notes", "loom"),
    ("embed", "loom"),
    ("get", "notes", "a"),
    ("list", "notes"),
    ("delete", "notes", "a"),
    ("export", "notes"),
    ("export", "notes", "out.jsonl"),
    ("drop", "notes", "--confirm", "notes"),
    ("cancel", "1"),
    ("dead", "list"),
    ("dead", "stats"),
    ("dead", "replay", "--all"),
    ("drain",),
    ("pause",),
    ("resume",),
    ("retry-failed",),
    ("requeue-stale",),
    ("repair",),
    ("attachments",),
    ("detach", "notes"),
]


@pytest.fixture
def theirs(shell: Shell) -> Path:
    """A database of another application, in WAL mode and closed."""
    path = shell.folder / "theirs.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE theirs (id INTEGER PRIMARY KEY, body TEXT)")
    return path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_command_that_creates_nothing_refuses_it(shell: Shell, theirs: Path, words: tuple[str, ...]) -> None:
    """No byte changes and no file appears beside it, and one sentence says what to do."""
    before = snapshot(shell.folder)

    said = shell.run(*words, "--url", THEIRS, code=1).stderr.strip()

    assert said == f"embedq: {theirs} has no embedq in it: `embedq init` installs it there, or name another database"
    assert snapshot(shell.folder) == before


def test_the_doctor_finds_it_and_leaves_it(shell: Shell, theirs: Path) -> None:
    """A database without embedq is a finding like any other."""
    before = snapshot(shell.folder)

    [finding] = shell.facts("doctor", "--url", THEIRS, code=1)["findings"]

    assert (finding["check"], finding["verdict"]) == ("database", "problem")
    assert f"{theirs} has no embedq in it" in finding["message"]
    assert snapshot(shell.folder) == before


def test_as_a_queue_it_is_refused_too(shell: Shell, theirs: Path) -> None:
    """The corpus is ours, the file that EMBEDQ_QUEUE_URL names is not."""
    shell.run("init")

    before = theirs.read_bytes()
    said = shell.run("status", code=1, EMBEDQ_QUEUE_URL=THEIRS).stderr

    assert "theirs.db has no embedq in it" in said
    assert theirs.read_bytes() == before
    assert sorted(path.name for path in shell.folder.glob("theirs*")) == ["theirs.db"]


@pytest.mark.parametrize("words", [("pause",), ("resume",)])
def test_a_switch_makes_no_database(shell: Shell, words: tuple[str, ...]) -> None:
    """A mistyped URL is said, not made true."""
    assert "no database at sqlite:///mistyped.db" in shell.run(*words, "--url", "sqlite:///mistyped.db", code=1).stderr
    assert list(shell.folder.iterdir()) == []


def test_init_installs_beside_their_tables(shell: Shell, theirs: Path) -> None:
    """What the refusal says helps: their rows stay, and commands that look then work."""
    with closing(sqlite3.connect(theirs)) as db:
        db.execute("INSERT INTO theirs (body) VALUES ('a row')")
        db.commit()

    shell.run("init", "--url", THEIRS)

    assert shell.facts("status", "--url", THEIRS)["records"]["total"] == 0
    with closing(sqlite3.connect(theirs)) as db:
        assert db.execute("SELECT body FROM theirs").fetchall() == [("a row",)]
