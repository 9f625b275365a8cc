"""A queue in another database, by the command line."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.doors.conftest import Shell
from tests.doors.test_cli_pair_roles import execute

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


def test_the_queue_of_another_corpus_is_refused(shell: Shell) -> None:
    """Whoever names the wrong corpus, by --url too, is told so; the queue and its jobs stay as they are."""
    shell.run("init", **QUEUE)
    shell.run("put", "notes", shell.write("notes.jsonl", {"id": "a", "text": "A"}), **QUEUE)
    other = ("--url", "sqlite:///other.db")
    for words in (("init",), ("status",), ("put", "notes", "notes.jsonl"), ("work",)):
        assert "another corpus" in shell.run(*words, *other, code=1, **QUEUE).stderr

    assert shell.facts("status", **QUEUE)["queue"]["pending"]["total"] == 1


def test_whoever_only_looks_notes_no_corpus(shell: Shell) -> None:
    """A queue of before is not taken for the queue of a corpus that somebody named by mistake."""
    shell.run("init", **QUEUE)
    shell.run("init", EMBEDQ_URL="sqlite:///other.db")
    with closing(sqlite3.connect(shell.folder / "queue.db")) as db, db:
        db.execute("DELETE FROM embedq_control WHERE name = 'corpus'")

    shell.run("status", "--url", "sqlite:///other.db", **QUEUE)

    shell.run("init", **QUEUE)
    assert "another corpus" in shell.run("status", "--url", "sqlite:///other.db", code=1, **QUEUE).stderr


def test_status_says_where_the_queue_is(shell: Shell) -> None:
    """Both databases are named."""
    shell.run("init", **QUEUE)

    assert "sqlite:///embedq.db, queue in sqlite:///queue.db" in shell.run("status", **QUEUE).stdout


def test_roles_are_made_in_a_queue_beside_a_file(shell: Shell, postgres_url: str) -> None:
    """A file knows no roles, its queue's server does."""
    made = shell.facts("init", "--roles", EMBEDQ_QUEUE_URL=postgres_url)

    assert {*made["there"], *made["made"]} == {"embedq_reader", "embedq_writer", "embedq_worker"}
    assert "knows no roles" in shell.run("init", "--roles", code=1, **QUEUE).stderr


def test_attached_tables_keep_their_queue_in_their_database(shell: Shell, postgres_url: str) -> None:
    """They would not be followed, and nothing would say so."""
    shell.environment |= {"EMBEDQ_URL": postgres_url, "EMBEDQ_EMBEDDER": "fake@8"}
    execute(postgres_url, "CREATE TABLE article (id int PRIMARY KEY, body text)")
    shell.run("attach", "article", "--key", "id", "--text", "body")

    assert "detach them first" in shell.run("init", code=1, **QUEUE).stderr

    shell.run("status")  # nothing has marked it
    shell.run("detach", "article")
    shell.run("init", **QUEUE)
