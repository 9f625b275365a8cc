"""Seed 003: a bulk import pauses, drains, replaces and resumes."""

import json
from pathlib import Path

from tests.acceptance.processes import Place
from tests.acceptance.waiting import until


def file_of(place: Place, lines: list[str]) -> str:
    path = Path(place.folder / "new.jsonl")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def new_lines(count: int) -> list[str]:
    return [json.dumps({"id": f"new{number}", "text": f"new text {number}"}) for number in range(count)]


def listed(api_records: list[dict[str, str]]) -> set[str]:
    return {record["id"] for record in api_records}


def test_an_import_pauses_drains_replaces_and_resumes_a_running_queue(place: Place) -> None:
    """While the API runs, an import pauses it, lets leased jobs finish, replaces all records, and resumes."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=0.7")
    api.put(*({"id": f"old{number}", "text": f"old text {number}"} for number in range(20)))
    until(place.calls, "a batch with the embedder")

    done = place.run(
        "import", "notes", file_of(place, new_lines(30)), "--json", EMBEDQ_FAKE_FAULTS="", CHL_API_BASE_URL=api.url
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["records"], told["deleted"], told["drained"]) == (30, 20, True)
    assert [line["event"] for line in api.log() if line["event"] in {"paused", "resumed"}] == ["paused", "resumed"]
    api.embedded(30)
    assert not api.status()["paused"]
    assert listed(api.http.get("/collections/notes/records").json()["records"]) == {f"new{n}" for n in range(30)}


def test_an_import_without_an_api_goes_to_the_database_directly(place: Place) -> None:
    """With no API in reach the import works on the file, and the next start embeds what it brought."""
    done = place.run("import", "notes", file_of(place, new_lines(5)), "--json", CHL_API_BASE_URL="http://127.0.0.1:9")

    assert done.returncode == 0, done.stderr
    assert "no API answers" in done.stderr
    api = place.up()
    api.embedded(5)


def test_an_import_with_a_bad_line_touches_nothing(place: Place) -> None:
    """A file with a bad line is refused before anything is paused, deleted or written, and the line is named."""
    api = place.up()
    api.put({"id": "old", "text": "old text"})
    api.embedded(1)

    done = place.run("import", "notes", file_of(place, [*new_lines(2), '{"id": "bad"}']), CHL_API_BASE_URL=api.url)

    assert done.returncode == 1
    assert "3" in done.stderr
    assert api.log("paused") == []
    assert listed(api.http.get("/collections/notes/records").json()["records"]) == {"old"}
    assert not api.status()["paused"]
