"""Records and collections on the command line: declare, get, list, delete, drop, export."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.doors.conftest import Shell, World
from tests.doors.terminal import terminal
from tests.doors.test_cli import notes
from tests.doors.test_cli_running import until

from embedq.cli.exporting import Wanted, export_all
from embedq.model import Page, Record

ODD: list[dict[str, Any]] = [
    {"id": "a/b ☃", "text": "two\nlines \u2028 and \x1b[2J", "attributes": {"n": [1, {"deep": None}], "x": "織機"}},
    {"id": "b", "text": "plain", "tenant": "t"},
    {"id": "c", "text": "no attributes"},
]


def test_declare_says_what_it_did(shell: Shell) -> None:
    """Created, unchanged, changed; what is left out stays as it was declared."""
    first = shell.facts("declare", "books", "--text-from", "title,body", "--priority", "high", "--max-attempts", "5")
    again = shell.facts("declare", "books")
    other = shell.facts("declare", "books", "--priority", "low", "--retry-factor", "3")

    assert (first["status"], first["text_from"], first["priority"]) == ("created", ["title", "body"], "high")
    assert (again["status"], again["changed"]) == ("unchanged", [])
    assert (other["status"], other["changed"]) == ("changed", ["priority", "retry"])
    assert (other["text_from"], other["retry"]["max_attempts"], other["retry"]["factor"]) == (["title", "body"], 5, 3)
    assert "books has another text from" in shell.run("declare", "books", "--text-from", "title").stdout


def test_declare_takes_text_from_away(shell: Shell) -> None:
    """An empty list: records bring their own text again."""
    shell.run("declare", "books", "--text-from", "title")

    assert shell.facts("declare", "books", "--text-from", "")["text_from"] is None


def test_another_embedder_over_records_is_refused(shell: Shell) -> None:
    """It would be a migration: exit 1, and nothing changes."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(1)))

    assert "another embedder" in shell.run("declare", "notes", "--embedder", "fake@8", code=1).stderr
    assert shell.facts("declare", "notes")["embedder"] == "fake"


def test_get_shows_a_record(shell: Shell) -> None:
    """All facts of it, on a screen and as JSON; a text cannot steer the terminal."""
    shell.run("put", "notes", shell.write("n.jsonl", *ODD))

    page = shell.run("get", "notes", "a/b ☃").stdout
    facts = shell.facts("get", "notes", "a/b ☃")

    assert "two\nlines \\u2028 and ␛[2J" in page
    assert '{"n": [1, {"deep": null}], "x": "織機"}' in page
    assert (facts["text"], facts["embedding_status"]) == (ODD[0]["text"], "pending")
    assert "no record 'z' in 'notes'" in shell.run("get", "notes", "z", code=1).stderr
    assert "no record 'b'" in shell.run("get", "notes", "b", "--tenant", "other", code=1).stderr


def test_a_near_name_is_suggested(shell: Shell) -> None:
    """A typing slip in a collection's name is answered with the name that was meant."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(1)))

    for words in (("get", "ntoes", "n0"), ("jobs", "-c", "ntoes")):
        assert "no collection 'ntoes': did you mean 'notes'?" in shell.run(*words, code=1).stderr
    assert "did you mean" not in shell.run("list", "books", code=1).stderr


def test_list_has_pages(shell: Shell) -> None:
    """Pages follow one another; a status and a tenant narrow them."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(3), {"id": "t", "text": "x", "tenant": "t"}))

    first = shell.facts("list", "notes", "-n", "2")
    rest = shell.facts("list", "notes", "-n", "2", "--cursor", first["next_cursor"])

    assert [record["id"] for record in first["records"] + rest["records"]] == ["n0", "n1", "n2", "t"]
    assert [record["id"] for record in shell.facts("list", "notes", "--tenant", "t")["records"]] == ["t"]
    assert shell.facts("list", "notes", "--status", "embedded")["records"] == []
    assert "more: --cursor" in shell.run("list", "notes", "-n", "2").stdout


def test_delete_says_what_existed(shell: Shell) -> None:
    """One absent id or several: exit 0, and they are named. A tenant's records are its own."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(4), {"id": "t", "text": "x", "tenant": "t"}))

    assert shell.facts("delete", "notes", "gone") == {"deleted": [], "absent": ["gone"], "purged": False}
    assert shell.facts("delete", "notes", "n0", "gone", "lost")["absent"] == ["gone", "lost"]
    assert shell.facts("delete", "notes", "t", "--tenant", "other")["deleted"] == []
    said = shell.run("delete", "notes", "n1", "gone", "--purge").stdout
    assert "1 record purged from notes" in said
    assert "1 id did not exist: gone" in said
    assert [record["id"] for record in shell.facts("list", "notes")["records"]] == ["n2", "n3", "t"]


def test_delete_reads_ids_from_a_file(shell: Shell) -> None:
    """One id per line, from a file or from stdin, however many."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(1500)))
    (shell.folder / "ids").write_text("".join(f"n{n}\n" for n in range(1200)))

    assert len(shell.facts("delete", "notes", "--from", "ids")["deleted"]) == 1200
    assert "2 records deleted" in shell.run("delete", "notes", "-", given="n1200\r\n\nn1201").stdout
    assert shell.facts("status")["records"]["total"] == 298


def test_drop_needs_the_name_twice(shell: Shell) -> None:
    """Without a terminal by the option; another name is refused."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(2)))

    assert "confirm" in shell.run("drop", "notes", "--confirm", "books", code=1).stderr
    assert shell.facts("drop", "notes", "--confirm", "notes") == {"name": "notes", "deleted": True}
    assert shell.facts("collections")["collections"] == []


@pytest.mark.parametrize(("typed", "code", "left"), [("notes", 0, []), ("note", 1, ["notes"]), ("", 1, ["notes"])])
def test_drop_asks_on_a_terminal(shell: Shell, typed: str, code: int, left: list[str]) -> None:
    """It says what will be gone, and goes on only if the name is typed."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(2)))

    with terminal(shell, "drop", "notes") as screen:
        screen.until(lambda text: "once more" in text)
        screen.type(f"{typed}\n")
        assert screen.ends() == code

    assert "2 records of notes will be gone for good" in screen.text
    assert [one["name"] for one in shell.facts("collections")["collections"]] == left


def test_an_export_is_taken_back_unchanged(shell: Shell) -> None:
    """Put into another collection, exported records are the same: ids, texts, attributes, tenants."""
    shell.run("put", "notes", shell.write("n.jsonl", *ODD, *notes(1100)))

    assert shell.facts("export", "notes", "out.jsonl") == {"collection": "notes", "records": 1103, "file": "out.jsonl"}
    shell.run("put", "copy", "out.jsonl")
    shell.run("export", "copy", "again.jsonl")

    assert (shell.folder / "again.jsonl").read_bytes() == (shell.folder / "out.jsonl").read_bytes()
    assert stat.S_IMODE((shell.folder / "out.jsonl").stat().st_mode) == 0o600
    assert {"id": "a/b ☃", **{name: ODD[0][name] for name in ("text", "attributes")}} in [
        json.loads(line) for line in (shell.folder / "out.jsonl").read_text().splitlines()
    ]


def test_a_made_text_is_not_exported(shell: Shell) -> None:
    """Where attributes make the text, they are what `put` takes back."""
    shell.run("declare", "books", "--text-from", "title")
    shell.run("put", "books", shell.write("b.jsonl", {"id": "1", "title": "The loom"}))

    exported = shell.run("export", "books").stdout

    assert json.loads(exported) == {"id": "1", "attributes": {"title": "The loom"}}
    assert shell.run("put", "books", "-", given=exported).stdout


def test_an_export_of_one_tenant(shell: Shell) -> None:
    """Another's records are not in it."""
    shell.run("put", "notes", shell.write("n.jsonl", *ODD))

    assert [json.loads(line)["id"] for line in shell.run("export", "notes", "--tenant", "t").stdout.splitlines()] == [
        "b"
    ]


def test_an_export_with_vectors(shell: Shell) -> None:
    """Each current vector stands beside its space; what waits has none, and `put` takes the lines back."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(1)))
    worker = shell.start("work", "--workers", "1")
    until(lambda: shell.facts("get", "notes", "n0")["embedding_status"] == "embedded")
    worker.terminate()
    worker.communicate()
    shell.run("put", "notes", shell.write("m.jsonl", *notes(1, 1)))

    exported = shell.run("export", "notes", "--vectors").stdout
    first, second = (json.loads(line) for line in exported.splitlines())

    assert first["_embedding"]["vector"] == shell.facts("get", "notes", "n0", "--vector")["vector"]
    assert first["_embedding"]["space"] == shell.facts("collections")["collections"][0]["space"]
    assert second["_embedding"]["vector"] is None
    shell.run("put", "notes", "-", given=exported)
    assert shell.facts("get", "notes", "n0")["attributes"] == {}


async def test_an_exported_vector_is_of_the_text_beside_it(world: World, tmp_path: Path) -> None:
    """A record that is edited and embedded while it is exported comes with both of one moment."""
    await world.client.put("notes", [{"id": "a", "text": "A"}])
    await world.embed_all()
    list_records = world.client.records

    async def edited_after(*args: Any, **kwargs: Any) -> Page[Record]:  # noqa: ANN401 handed on
        page = await list_records(*args, **kwargs)
        await world.client.put("notes", [{"id": "a", "text": "B"}])
        await world.embed_all()
        return page

    world.client.records = edited_after  # type: ignore[method-assign]
    await export_all(world.app, Wanted(collection="notes", vectors=True, tenant=None), str(tmp_path / "out.jsonl"))

    [line] = (tmp_path / "out.jsonl").read_text().splitlines()
    record = await world.client.get("notes", "a", with_vector=True)
    assert record.vector is not None
    assert (json.loads(line)["text"], json.loads(line)["_embedding"]["vector"]) == ("B", record.vector.tolist())


def test_an_export_into_a_device_is_no_file(shell: Shell) -> None:
    """What is no file is written to, not replaced."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(1)))

    assert '"id": "n0"' in shell.run("export", "notes", "/dev/stdout").stdout


def test_cancel_takes_many_jobs(shell: Shell) -> None:
    """Each is cancelled or named with the reason; exit 1 if one was not."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(3)))
    first, second, third = (job["id"] for job in shell.facts("jobs")["jobs"])

    done = shell.facts("cancel", first, "999", code=1)
    assert "2 jobs cancelled" in shell.run("cancel", second, third).stdout

    assert ([job["status"] for job in done["cancelled"]], list(done["refused"])) == (["cancelled"], ["999"])
    assert f"job {first} is cancelled: only a pending or processing job" in shell.run("cancel", first, code=1).stderr
    assert shell.facts("status")["queue"]["cancelled"]["total"] == 3
