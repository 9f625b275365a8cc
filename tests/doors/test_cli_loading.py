"""Files of all kinds go into a collection, bad lines included."""

import json
import os
import stat
from pathlib import Path

import pytest
from tests.doors.conftest import Shell
from tests.doors.test_cli import notes
from tests.doors.test_cli_running import running, until

BAD = '{"id": "a", "text": "one"}\n{broken\n{"id": "b", "text": " "}\n\n{"id": "c", "text": "three"}\n'


def test_flat_json_lines_load_as_they_are(shell: Shell) -> None:
    """Objects of another system need no option where a collection says which attributes make the text."""
    shell.run("declare", "books", "--text-from", "title")
    shell.run("put", "books", shell.write("b.jsonl", {"id": 1, "title": "The loom", "price": 3.5}))

    [hit] = shell.facts("search", "books", "loom", "-m", "keyword", "-f", "price=3.5")["hits"]

    assert (hit["id"], hit["attributes"]) == ("1", {"title": "The loom", "price": 3.5})


def test_csv_columns_have_types(shell: Shell) -> None:
    """Numbers and booleans are such, an empty cell is null, codes stay text, and a type can be named."""
    rows = "id,text,price,code,open,note,size\n01,loom,3.50,007,true,,1\n02,shuttle,10.00,8,false,x,2\n"
    (shell.folder / "b.csv").write_text(rows)

    shell.run("put", "books", "b.csv", "--types", "size=text")

    first, second = (record["attributes"] for record in shell.facts("list", "books")["records"])
    assert first == {"price": 3.5, "code": "007", "open": True, "note": None, "size": "1"}
    assert second == {"price": 10.0, "code": "8", "open": False, "note": "x", "size": "2"}
    assert [
        hit["id"] for hit in shell.facts("search", "books", "shuttle", "-m", "keyword", "-f", "price=10")["hits"]
    ] == ["02"]


def test_csv_from_a_pipe_has_the_same_types(shell: Shell) -> None:
    """A stream that can be read once is kept while its types are learnt, from stdin and from a named pipe."""
    os.mkfifo(shell.folder / "pipe")
    for name, given in (("-", "id,text,n\na,x,1\nb,y,\n"), ("pipe", None)):
        process = shell.start("put", "notes", name, "--format", "csv")
        if given is None:
            (shell.folder / "pipe").write_text("id,text,n\na,x,1\nb,y,\n")
        _, err = process.communicate(given, timeout=60)
        assert process.returncode == 0, err
        assert [record["attributes"] for record in shell.facts("list", "notes")["records"]] == [{"n": 1}, {"n": None}]


def test_a_bad_line_says_what_was_stored_and_what_to_do(shell: Shell) -> None:
    """The line is named, and the way out: mend it, or leave it out. A text that is missing is looked for elsewhere."""
    said = shell.run("put", "notes", shell.write("n.jsonl", {"id": "a", "body": "x"}), code=1).stderr

    assert "line 1: nothing to embed" in said
    assert "--text-column" in said
    assert "Nothing was stored." in said
    assert "--skip-bad" in said


def test_an_id_that_comes_twice_is_named_by_its_line(shell: Shell) -> None:
    """And by itself: where it came before can be searched for."""
    (shell.folder / "n.jsonl").write_text('{"id": "a", "text": "A"}\n\n{"id": "a", "text": "B"}\n')

    said = shell.run("put", "notes", "n.jsonl", code=1).stderr

    assert "line 3: the id 'a' came before in this batch: send each id once" in said


def test_bad_lines_are_left_out_and_kept(shell: Shell) -> None:
    """With --skip-bad the good lines are written and the bad ones are kept with number, reason and raw text: exit 0."""
    (shell.folder / "n.jsonl").write_text(BAD)

    facts = shell.facts("put", "notes", "n.jsonl", "--skip-bad")

    assert (facts["records"], facts["rejected"], facts["rejects"]) == (2, 2, "n.jsonl.rejects.jsonl")
    kept = shell.folder / "n.jsonl.rejects.jsonl"
    first, second = (json.loads(line) for line in kept.read_text().splitlines())
    assert (first["line"], first["raw"]) == (2, "{broken")
    assert (second["line"], second["raw"]) == (3, '{"id": "b", "text": " "}')
    assert "no valid JSON" in first["reason"]
    assert "nothing to embed" in second["reason"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [record["id"] for record in shell.facts("list", "notes")["records"]] == ["a", "c"]


def test_a_file_without_bad_lines_leaves_no_rejects(shell: Shell) -> None:
    """Rejects of an earlier run go: what the file holds is of this run."""
    (shell.folder / "n.jsonl").write_text(BAD)
    shell.run("put", "notes", "n.jsonl", "--rejects", "bad.jsonl")
    assert (shell.folder / "bad.jsonl").exists()

    facts = shell.facts("put", "notes", shell.write("n.jsonl", *notes(2)), "--rejects", "bad.jsonl")

    assert (facts["rejected"], facts["rejects"]) == (0, None)
    assert not (shell.folder / "bad.jsonl").exists()


def test_the_file_that_is_read_is_never_the_rejects(shell: Shell) -> None:
    """A slip does not cost the data."""
    (shell.folder / "n.jsonl").write_text(BAD)

    shell.run("put", "notes", "n.jsonl", "--rejects", "./n.jsonl", code=2)

    assert (shell.folder / "n.jsonl").read_text() == BAD


def test_another_tenants_id_is_a_bad_line(shell: Shell) -> None:
    """The others of its batch are written."""
    shell.run("put", "notes", shell.write("t.jsonl", {"id": "n1", "text": "theirs", "tenant": "them"}))

    facts = shell.facts("put", "notes", shell.write("n.jsonl", *notes(3)), "--skip-bad")

    assert (facts["records"], facts["rejected"]) == (2, 1)
    [kept] = map(json.loads, (shell.folder / "n.jsonl.rejects.jsonl").read_text().splitlines())
    assert (kept["line"], kept["reason"]) == (2, "the id belongs to another tenant")


def test_put_says_when_nobody_will_embed_it(shell: Shell, tmp_path: Path) -> None:
    """Without a worker it is said on stderr and as a fact; with one, nothing is said."""
    file = shell.write("n.jsonl", *notes(1))
    assert "no worker runs: start one with `embedq work`" in shell.run("put", "notes", file).stderr

    with running(tmp_path, "work", "--workers", "2"):
        until(lambda: shell.facts("status")["workers"]["num_workers"] == 2)
        again = shell.write("m.jsonl", *notes(1, 7))

        assert shell.run("put", "notes", again).stderr == ""
        assert shell.facts("put", "notes", again)["workers"] == 2


@pytest.mark.parametrize("words", [("import", "notes"), ("put", "notes")])
def test_nothing_is_said_of_workers_where_nothing_is_to_embed(shell: Shell, words: tuple[str, ...]) -> None:
    """A file whose texts are embedded already needs no worker."""
    file = shell.write("n.jsonl", *notes(1))
    with running(shell.folder, "work", "--workers", "1") as worker:
        shell.run("put", "notes", file)
        shell.run("drain")
        worker.terminate()
        worker.wait()

    assert shell.run(*words, file).stderr == ""
