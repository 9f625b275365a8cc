"""A queue in another database, by the command line."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.doors.conftest import Shell

QUEUE = {"EMBEDQ_QUEUE_URL": "sqlite:///queue.db"}


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        (found,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 a test's own word
        return int(found)


def test_records_and_jobs_are_in_two_files(shell: Shell) -> None:
    """What is put stands in one file and its job in the other; status and doctor see both."""
    assert shell.facts("init", **QUEUE) == {
        "status": "ready", "url": "sqlite:///embedq.db", "queue_url": "sqlite:///queue.db"
    }  # fmt: skip
    assert shell.facts("doctor", **QUEUE)["healthy"]
    file = shell.write("notes.jsonl", {"id": "a", "text": "Call Ada about the loom"}, {"id": "b", "text": "Oil it"})

    shell.run("put", "notes", file, **QUEUE)

    assert (count(shell.folder / "embedq.db", "embedq_job"), count(shell.folder / "queue.db", "embedq_job")) == (0, 2)
    with closing(sqlite3.connect(shell.folder / "queue.db")) as db:
        assert db.execute("SELECT DISTINCT text FROM embedq_record").fetchall() == [("",)]
    assert shell.facts("status", **QUEUE)["queue"]["pending"]["total"] == 2
    findings = json.loads(shell.run("doctor", "--json", code=1, **QUEUE).stdout)["findings"]
    assert [one["check"] for one in findings if one["verdict"] == "problem"] == [
        "workers"
    ]  # jobs wait, and none is alive


def test_a_queue_is_taken_for_no_corpus_and_a_corpus_for_no_queue(shell: Shell) -> None:
    """The refusal says which variable is to name what."""
    shell.run("init", **QUEUE)
    shell.run("put", "notes", shell.write("notes.jsonl", {"id": "a", "text": "A"}), **QUEUE)

    swapped = {"EMBEDQ_URL": "sqlite:///queue.db", "EMBEDQ_QUEUE_URL": "sqlite:///embedq.db"}

    assert "EMBEDQ_QUEUE_URL" in shell.run("status", code=1, **swapped).stderr
    assert "queue of a corpus elsewhere" in shell.run("status", code=1, EMBEDQ_URL="sqlite:///queue.db").stderr


def test_one_database_named_twice_is_one_database(shell: Shell) -> None:
    """Its records and jobs stay in one transaction."""
    shell.run("init", EMBEDQ_QUEUE_URL="sqlite:///embedq.db")
    shell.run("put", "notes", shell.write("n.jsonl", {"id": "a", "text": "A"}), EMBEDQ_QUEUE_URL="sqlite:///embedq.db")

    assert count(shell.folder / "embedq.db", "embedq_job") == 1


def test_one_database_in_two_spellings_is_refused_and_stays_what_it_is(shell: Shell) -> None:
    """Nothing marks it as a queue: without the second name it is a corpus as before, whether it was there or not."""
    twice = {"EMBEDQ_QUEUE_URL": "sqlite:///./embedq.db"}
    for _ in range(2):
        assert "is the database of EMBEDQ_URL" in shell.run("init", code=1, **twice).stderr
        shell.run("init")
    (shell.folder / "link.db").symlink_to(shell.folder / "embedq.db")
    assert "EMBEDQ_QUEUE_URL" in shell.run("init", code=1, EMBEDQ_QUEUE_URL="sqlite:///link.db").stderr
    shell.run("status")


def test_one_postgres_database_in_two_spellings_too(shell: Shell, postgres_url: str) -> None:
    """By another name of its host."""
    shell.environment["EMBEDQ_URL"] = postgres_url
    twice = {"EMBEDQ_QUEUE_URL": postgres_url.replace("127.0.0.1", "localhost")}
    for _ in range(2):
        assert "is the database of EMBEDQ_URL" in shell.run("init", code=1, **twice).stderr
        shell.run("init")
