"""The command line in real processes: what it prints, and how it ends."""

from typing import Any

import pytest
from tests.doors.conftest import Shell


def notes(number: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"n{n}", "text": f"note {n} about looms"} for n in range(start, start + number)]


def test_the_version_and_the_help(shell: Shell) -> None:
    """Every command of this version is listed, and none that comes later."""
    assert shell.run("--version").stdout.startswith("embedq 0.")

    page = shell.run("--help").stdout

    for word in ("up", "serve", "work", "init", "model", "put", "import", "search", "embed", "status", "jobs", "dead",
                 "retry-failed", "requeue-stale", "pause", "resume", "drain", "repair", "doctor", "collections",
                 "bench", "declare", "get", "list", "delete", "drop", "export", "cancel", "attach", "detach",
                 "attachments"):  # fmt: skip
        assert f" {word} " in page
    for later in ("migrate", "mcp"):
        assert f" {later} " not in page


@pytest.mark.parametrize(
    "words",
    [("nonsense",), ("put",), ("jobs", "--status", "silly"), ("dead", "replay"), ("search", "c", "q", "-k", "0"),
     ("put", "c", "f", "--format", "xml"), ("put", "c", "f.csv", "--types", "a=date"),
     ("put", "c", "f", "--types", "a=text"), ("delete", "c"), ("delete", "c", "a", "--from", "f"), ("drop", "c"),
     ("export", "c", "--json"), ("cancel",), ("drain", "--timeout", "x"), ("dead", "list", "--reason", "cancelled")],
)  # fmt: skip
def test_wrong_usage_is_two(shell: Shell, words: tuple[str, ...]) -> None:
    """What cannot be understood ends with 2 and says so on stderr."""
    result = shell.run(*words, code=2)

    assert result.stderr
    assert result.stdout == ""


def test_refusals_are_one_with_a_message(shell: Shell) -> None:
    """A missing database, a wrong setting, an unknown collection: one message each, no traceback."""
    assert "no database at" in shell.run("status", code=1).stderr
    wrong = shell.run("init", code=1, EMBED_JOB_RETENTION_DAYS="99", EMBEDQ_WORKERS="x").stderr
    assert "EMBED_JOB_RETENTION_DAYS='99': it must be a whole number from 7 to 30" in wrong
    assert "EMBEDQ_WORKERS='x'" in wrong
    assert "EMBEDQ_URL" in shell.run("init", "--url", "neo4j://h/d", code=1).stderr
    refused = shell.run("init", "--url", "postgresql://u:hidden@127.0.0.1:1/d", code=1).stderr
    assert "127.0.0.1:1/d cannot be reached" in refused
    assert "hidden" not in refused

    shell.run("init")

    assert "no collection 'nope'" in shell.run("search", "nope", "x", code=1).stderr
    assert "cannot be read" in shell.run("put", "notes", "gone.jsonl", code=1).stderr


def test_init_can_be_repeated(shell: Shell) -> None:
    """It installs the schema and is safe to repeat."""
    assert shell.facts("init") == {"status": "ready", "url": "sqlite:///embedq.db"}
    assert "ready" in shell.run("init").stdout
    assert (shell.folder / "embedq.db").exists()


def test_put_says_what_it_wrote(shell: Shell) -> None:
    """Records are counted; the same file again queues nothing."""
    file = shell.write("notes.jsonl", *notes(1200))

    assert shell.facts("put", "notes", file)["queued"] == 1200
    assert "1,200 records into notes" in shell.run("put", "notes", file).stdout
    assert shell.facts("status")["queue"]["pending"]["total"] == 1200
    assert [one["name"] for one in shell.facts("collections")["collections"]] == ["notes"]


def test_put_claims_nothing_that_it_did_not_do(shell: Shell) -> None:
    """It says nothing of deleting and draining; a text that waits already is to be embedded, whoever queued it."""
    file = shell.write("notes.jsonl", *notes(3))

    assert shell.facts("put", "notes", file) == {
        "records": 3,
        "queued": 3,
        "unchanged": 0,
        "workers": 0,
        "rejected": 0,
        "rejects": None,
    }
    assert "3 to embed, 0 with nothing to do" in shell.run("put", "notes", file).stdout


def test_a_word_for_looking_starts_nothing(shell: Shell) -> None:
    """Who asks for `workers` wants to see them: `status` is named first, not only `work`, which starts some."""
    said = " ".join(shell.run("workers", code=2).stderr.split())

    assert "`embedq status` shows the workers" in said
    assert "Did you mean" not in said
    assert "Did you mean 'work'" in shell.run("wrok", code=2).stderr


def test_put_reads_csv_from_stdin(shell: Shell) -> None:
    """Columns are named, and the rest are attributes."""
    shell.run(
        "put", "books", "-", "--format", "csv", "--id-column", "isbn", "--text-column", "title",
        given="isbn,title,year\n1,The loom,1843\n",
    )  # fmt: skip

    [hit] = shell.facts("search", "books", "loom", "-m", "keyword", "-f", "year=1843")["hits"]

    assert (hit["id"], hit["attributes"]) == ("1", {"year": 1843})


def test_a_bad_line_is_named_and_its_batch_not_stored(shell: Shell) -> None:
    """Batches before it are stored, and the message says so."""
    file = shell.write("notes.jsonl", *notes(1100), {"id": "bad", "text": " "}, *notes(5, 2000))

    result = shell.run("put", "notes", file, code=1)

    assert "line 1101: nothing to embed" in result.stderr
    assert "Stored before this batch: 1,000 records." in result.stderr
    assert shell.facts("status")["queue"]["pending"]["total"] == 1000


def test_import_replaces_a_collection_and_resumes(shell: Shell) -> None:
    """What is not in the file goes; the queue runs again in the end."""
    shell.run("put", "notes", shell.write("old.jsonl", *notes(10)))

    tally = shell.facts("import", "notes", shell.write("new.jsonl", *notes(4, 8)))

    assert (tally["records"], tally["queued"], tally["deleted"], tally["drained"]) == (4, 4, 8, True)
    status = shell.facts("status")
    assert (status["records"]["total"], status["paused"]) == (4, False)


def test_a_bad_import_touches_nothing(shell: Shell) -> None:
    """The whole file is looked through first, also from stdin; an empty one would delete all and is refused."""
    shell.run("put", "notes", shell.write("old.jsonl", *notes(10)))

    bad = shell.write("bad.jsonl", *notes(3, 50), {"id": "bad", "text": ""})
    assert "line 4" in shell.run("import", "notes", bad, code=1).stderr
    assert "Nothing was touched" in shell.run("import", "notes", "-", code=1, given='{"id": 5}\n').stderr
    assert "no records" in shell.run("import", "notes", "-", code=1, given="").stderr

    status = shell.facts("status")
    assert (status["records"]["total"], status["paused"]) == (10, False)


def test_an_import_keeps_a_pause_that_was_there(shell: Shell) -> None:
    """Somebody paused for a reason."""
    shell.run("init")
    shell.facts("pause")

    shell.run("import", "notes", shell.write("new.jsonl", *notes(2)))

    assert shell.facts("status")["paused"] is True


def test_pause_drain_and_resume(shell: Shell) -> None:
    """A drain that cannot end says what is left, and ends with 1."""
    shell.run("put", "notes", shell.write("notes.jsonl", *notes(3)))
    assert shell.facts("pause") == {"status": "paused"}
    assert shell.facts("drain")["waited_for"] == "leased"
    assert shell.facts("resume") == {"status": "resumed"}

    report = shell.facts("drain", "--timeout", "0", code=1)

    assert (report["status"], report["waited_for"], report["remaining"]) == ("timeout", "all", 3)


def test_jobs_and_dead_letters_are_listed(shell: Shell) -> None:
    """Lists have cursors; with nothing dead there is nothing to replay."""
    shell.run("put", "notes", shell.write("notes.jsonl", *notes(3)))

    first = shell.facts("jobs", "-n", "2")
    rest = shell.facts("jobs", "-n", "2", "--cursor", first["next_cursor"])

    assert len({job["id"] for job in first["jobs"] + rest["jobs"]}) == 3
    assert "n1" in shell.run("jobs", "--status", "pending").stdout
    assert shell.facts("dead", "list") == {"jobs": [], "next_cursor": None}
    assert shell.facts("dead", "stats") == {"total": 0, "causes": []}
    assert shell.facts("dead", "replay", "--all")["replayed"]["total"] == 0
    assert shell.facts("retry-failed")["retried"]["total"] == 0
    assert shell.facts("requeue-stale") == {"requeued": {"total": 0, "by_collection": {}}, "jobs": []}
    assert shell.facts("repair")["armed"] == 0


def test_the_doctor_ends_with_one_where_something_is_wrong(shell: Shell) -> None:
    """A warning is no failure; a file that is no database is one."""
    shell.run("init")
    healthy = shell.facts("doctor")
    (shell.folder / "no.db").write_text("this is no database, whatever its name says")

    ill = shell.facts("doctor", "--url", "sqlite:///no.db", code=1)

    assert healthy["healthy"] is True
    assert ill["findings"][0]["verdict"] == "problem"


def test_bench_measures_the_whole_way(shell: Shell) -> None:
    """Figures are positive, and nothing is left behind."""
    figures = shell.facts("bench", "-n", "200")

    assert {figure["name"] for figure in figures} >= {"put", "put to embedded", "one put p95", "one search p50"}
    assert all(figure["value"] > 0 for figure in figures)
    assert list(shell.folder.iterdir()) == []


def test_lists_take_a_tenant(shell: Shell) -> None:
    """Jobs and dead letters are listed, counted and replayed for one tenant."""
    records = [{"id": name, "text": "POISON", "tenant": name} for name in ("ours", "theirs")]
    shell.run("put", "notes", shell.write("n.jsonl", *records))
    ours = ("--tenant", "ours")

    assert [job["record_id"] for job in shell.facts("jobs", *ours)["jobs"]] == ["ours"]
    assert shell.facts("dead", "list", *ours)["jobs"] == []
    assert shell.facts("dead", "stats", *ours)["total"] == 0
    assert shell.facts("dead", "replay", *ours)["replayed"]["total"] == 0
    assert shell.facts("retry-failed", *ours)["retried"]["total"] == 0
