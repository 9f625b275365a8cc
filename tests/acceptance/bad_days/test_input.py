"""Bad days: bad input over a real connection gets a clear answer, and nothing is half-written."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from httpx import Response
from tests.acceptance.processes import Api, Place

RECORDS = "/collections/notes/records"
SEARCH = "/collections/notes/search"
GOOD = {"id": "fine", "text": "fine"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One server for the whole table, with one record in it."""
    place = Place(tmp_path_factory.mktemp("input"))
    api = place.serve()
    api.put({"id": "there", "text": "a record"})
    yield api
    place.close()


def batch(*records: object) -> bytes:
    return json.dumps({"records": [GOOD, *records]}).encode()


BAD: dict[str, tuple[str, str, bytes, int]] = {
    "search in an unknown collection": ("POST", "/collections/nowhere/search", b'{"query": "x"}', 404),
    "read in an unknown collection": ("GET", "/collections/nowhere/records/n1", b"", 404),
    "list an unknown collection": ("GET", "/collections/nowhere/records", b"", 404),
    "delete in an unknown collection": ("DELETE", "/collections/nowhere/records/n1", b"", 404),
    "empty text": ("POST", RECORDS, batch({"id": "b", "text": ""}), 422),
    "a text over the limit": ("POST", RECORDS, batch({"id": "b", "text": "x" * (1 << 20) + "x"}), 422),
    "invalid UTF-8": ("POST", RECORDS, b'{"id": "b", "text": "\xff\xfe"}', 400),
    "NUL": ("POST", RECORDS, batch({"id": "b", "text": "a\0b"}), 422),
    "a lone surrogate": ("POST", RECORDS, b'{"id": "b", "text": "\\ud800"}', 400),
    "an id of a megabyte": ("POST", RECORDS, batch({"id": "x" * 1_000_000, "text": "x"}), 422),
    "an endless id in the path": ("GET", f"{RECORDS}/{'x' * 60_000}", b"", 431),
    "a number for an id": ("POST", RECORDS, batch({"id": 7, "text": "x"}), 422),
    "a list for a text": ("POST", RECORDS, batch({"id": "b", "text": ["x"]}), 422),
    "no object": ("POST", RECORDS, batch("b"), 422),
    "the same id twice": ("POST", RECORDS, batch({"id": "fine", "text": "again"}), 422),
    "a k of 0": ("POST", SEARCH, b'{"query": "x", "k": 0}', 422),
    "a k of a million": ("POST", SEARCH, b'{"query": "x", "k": 1000000}', 422),
    "20,000 nested brackets": ("POST", RECORDS, b"[" * 20_000 + b"]" * 20_000, 400),
    "20,000 brackets in a filter": ("POST", SEARCH, b'{"query": "x", "filter": ' + b"[" * 20_000, 400),
    "1,001 records": ("POST", RECORDS, batch(*({"id": f"m{n}", "text": "x"} for n in range(1000))), 413),
    "a body over the limit": ("POST", RECORDS, b" " * (33 << 20), 413),
    "no body": ("POST", RECORDS, b"", 422),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), BAD.values(), ids=BAD)
def test_bad_input_gets_a_clear_4xx_and_nothing_is_written(
    api: Api, method: str, path: str, body: bytes, status: int
) -> None:
    """The answer is a problem document with the right status and what to do; the records are as before."""
    answer = api.http.request(method, path, content=body, headers={"Content-Type": "application/json"})

    check_problem(answer, status)
    listed = api.http.get(RECORDS).json()["records"]
    assert [record["id"] for record in listed] == ["there"]


def check_problem(answer: Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"].startswith("urn:embedq:problem:")
    assert problem["detail"]


def test_a_batch_with_bad_records_names_each_of_them(api: Api) -> None:
    """One good and two bad records: none is stored, and the two are named by their positions."""
    answer = api.http.post(RECORDS, content=batch({"id": "b", "text": ""}, {"id": "c", "text": "\0"}))

    assert sorted(answer.json()["problems"]) == ["1", "2"]


@pytest.mark.parametrize("name", ["a/b/c", "with some spaces", "🧵 loom", "per%cent", "?q#f", ".", "..", "naïve+plus"])
def test_ids_with_slashes_spaces_and_emoji_work(api: Api, name: str) -> None:
    """Any printable id can be written, read, changed, forced and deleted by its percent-encoded path."""
    path = f"{RECORDS}/{quote(name, safe='').replace('.', '%2E')}"
    api.put({"id": name, "text": "odd"})

    assert api.http.get(path).json()["id"] == name
    assert api.http.patch(path, json={"text": "odder"}).is_success
    assert api.http.get(path).json()["text"] == "odder"
    assert api.http.post(f"{path}/regenerate").status_code == 202
    assert api.http.delete(path).is_success
    assert api.http.get(path).status_code == 404
