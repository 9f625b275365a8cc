"""Bad input: a clear 4xx that names what is wrong, and nothing half-written."""

from typing import Any

import pytest
from httpx import AsyncClient
from tests.doors.conftest import problem

RECORDS = "/collections/notes/records"
GOOD = {"id": "good", "text": "fine"}
BAD_RECORDS: list[tuple[str, Any]] = [
    ("no id", {"text": "x"}),
    ("an id that is a number", {"id": 7, "text": "x"}),
    ("an empty id", {"id": "", "text": "x"}),
    ("an id of a megabyte", {"id": "x" * 1_000_000, "text": "x"}),
    ("an id with a control character", {"id": "a\nb", "text": "x"}),
    ("no text", {"id": "b"}),
    ("an empty text", {"id": "b", "text": "  "}),
    ("a text that is a list", {"id": "b", "text": ["x"]}),
    ("a text with NUL", {"id": "b", "text": "a\0b"}),
    ("a text over the limit", {"id": "b", "text": "x" * (1 << 20) + "y"}),
    ("attributes that are a list", {"id": "b", "text": "x", "attributes": [1]}),
    ("attributes too deep", {"id": "b", "text": "x", "attributes": {"a": [[]] * 1 and eval("[" * 80 + "]" * 80)}}),  # noqa: S307 a literal
    ("an unknown field", {"id": "b", "text": "x", "txet": "y"}),
    ("a priority that is none", {"id": "b", "text": "x", "priority": "asap"}),
    ("a tenant that is a number", {"id": "b", "text": "x", "tenant": 1}),
    ("no object", "b"),
    ("null", None),
    ("the id of its neighbour", {"id": "good", "text": "x"}),
]


@pytest.mark.parametrize("bad", [bad for _, bad in BAD_RECORDS], ids=[name for name, _ in BAD_RECORDS])
async def test_a_batch_with_a_bad_record_stores_none_and_names_it(http: AsyncClient, bad: object) -> None:
    """One bad record refuses the whole batch, and the problem names it by its position."""
    await http.put("/collections/notes")

    refused = problem(await http.post(RECORDS, json={"records": [GOOD, bad]}), 422, "invalid")

    assert list(refused["problems"]) == ["1"]
    assert (await http.get(RECORDS)).json()["records"] == []


async def test_every_bad_record_is_named(http: AsyncClient) -> None:
    """All bad records of a batch are named at once, whatever is wrong with each."""
    records = [{"id": 1}, GOOD, {"id": "c", "text": "x", "nope": 1}, {"id": "d", "text": "\0"}]

    refused = problem(await http.post(RECORDS, json={"records": records}), 422, "invalid")

    assert list(refused["problems"]) == ["0", "2", "3"]


BAD_BODIES: list[tuple[str, bytes, int]] = [
    ("no body", b"", 422),
    ("cut short", b'{"id": "a", "te', 400),
    ("20,000 brackets", b"[" * 20_000, 400),
    ("20,000 nested brackets", b"[" * 20_000 + b"]" * 20_000, 400),
    ("20,000 nested objects", b'{"a":' * 20_000 + b"1" + b"}" * 20_000, 400),
    ("invalid UTF-8", b'{"id": "a", "text": "\xff\xfe"}', 400),
    ("a lone surrogate, escaped", b'{"id": "a", "text": "\\ud800"}', 400),
    ("a lone surrogate, raw", b'{"id": "a", "text": "\xed\xa0\x80"}', 400),
    ("NaN", b'{"id": "a", "text": "x", "attributes": {"n": NaN}}', 400),
    ("Infinity", b'{"id": "a", "text": "x", "attributes": {"n": -Infinity}}', 400),
    ("a number beyond all bounds", b'{"id": "a", "text": "x", "attributes": {"n": 1e999}}', 422),
    ("a number of 10,000 digits", b'{"id": "a", "text": "x", "attributes": {"n": ' + b"9" * 10_000 + b"}}", 400),
    ("a list", b"[]", 422),
    ("null", b"null", 422),
    ("a word", b'"records"', 422),
    ("records that are no list", b'{"records": {}}', 422),
    ("no records", b'{"records": []}', 422),
    ("a field beside records", b'{"records": [{"id": "a", "text": "x"}], "priority": 1}', 422),
]


@pytest.mark.parametrize(("body", "status"), [row[1:] for row in BAD_BODIES], ids=[row[0] for row in BAD_BODIES])
async def test_a_body_that_is_no_record_is_refused(http: AsyncClient, body: bytes, status: int) -> None:
    """A body that cannot be read is 400, one that breaks a rule is 422; both say why, and nothing is declared."""
    answer = await http.post(RECORDS, content=body, headers={"Content-Type": "application/json"})

    problem(answer, status)
    assert (await http.get("/collections")).json()["collections"] == []


async def test_a_thousand_and_one_records_are_too_many(http: AsyncClient) -> None:
    """A batch over 1,000 records is 413."""
    records = [{"id": f"n{i}", "text": "x"} for i in range(1001)]

    problem(await http.post(RECORDS, json={"records": records}), 413, "too-large")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": ""},
        {"query": "   "},
        {"query": 7},
        {"query": "a\0b"},
        {"query": "x", "k": 0},
        {"query": "x", "k": -1},
        {"query": "x", "k": 1_000_000},
        {"query": "x", "k": "5"},
        {"query": "x", "k": 2.5},
        {"query": "x", "k": True},
        {"query": "x", "mode": "magic"},
        {"query": "x", "filter": []},
        {"query": "x", "filter": {"a": {"b": 1}}},
        {"query": "x", "filter": {"a": [[1]]}},
        {"query": "x", "filter": {"a": 2**64}},
        {"query": "x", "filter": {"a": [1, 10**400]}},
        {"query": "x", "tenant": 1},
        {"query": "x", "limit": 5},
    ],
)
async def test_a_search_that_breaks_a_rule_is_422(http: AsyncClient, body: dict[str, object]) -> None:
    """Search refuses wrong types, unknown fields, and a k of 0 or a million."""
    await http.put("/collections/notes")

    problem(await http.post("/collections/notes/search", json=body), 422, "invalid")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/collections/notes/records?limit=0", "limit"),
        ("/collections/notes/records?limit=1001", "limit"),
        ("/collections/notes/records?limit=ten", "limit"),
        ("/collections/notes/records?embedding_status=done", "embedding_status"),
        ("/collections/notes/records?staus=pending", "staus"),
        ("/collections/notes/records/n1?include=everything", "include"),
        ("/jobs/embedding?status=lost", "status"),
        ("/admin/dead?reason=bad_luck", "reason"),
        ("/collections/notes/records?cursor=" + "x" * 5000, "cursor"),
        ("/collections/notes/records?embedding_status=pending&cursor=nonsense", "cursor"),
        ("/jobs/embedding?cursor=nonsense", "cursor"),
    ],
)
async def test_a_query_parameter_that_breaks_a_rule_is_named(http: AsyncClient, path: str, names: str) -> None:
    """A wrong or unknown query parameter is 422, and the problem names it."""
    await http.put("/collections/notes")

    assert names in problem(await http.get(path), 422, "invalid")["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"text_from": "title"},
        {"text_from": []},
        {"text_from": ["a", "a"]},
        {"embedder": "nobody:knows"},
        {"embedder": "fake@0"},
        {"priority": 9},
        {"priority": True},
        {"retry": {"max_attempts": 0}},
        {"retry": {"base": 1}},
        {"colour": "red"},
    ],
)
async def test_a_declaration_that_breaks_a_rule_is_422(http: AsyncClient, body: dict[str, object]) -> None:
    """PUT of a collection refuses what cannot be, and declares nothing."""
    problem(await http.put("/collections/notes", json=body), 422, "invalid")

    assert (await http.get("/collections")).json()["collections"] == []


MANY = {f"f{n}": "x" for n in range(1000)}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/embed", MANY),
        ("POST", "/embed", {"texts": [1] * 1000}),
        ("POST", "/collections/notes/search", MANY),
        ("PUT", "/collections/notes", {"retry": MANY}),
        ("PUT", "/collections/notes", {"text_from": [1] * 1000}),
        ("POST", "/jobs/embedding", MANY),
        ("POST", "/workers/register", MANY),
        ("POST", "/workers/w/heartbeat", MANY),
        ("POST", "/workers/w/heartbeat", {"error_patterns": MANY}),
        ("POST", "/workers/w/heartbeat", {"halted": [1] * 1000}),
        ("POST", "/admin/dead/replay", MANY),
    ],
)
async def test_what_is_wrong_many_times_is_said_once(
    http: AsyncClient, method: str, path: str, body: dict[str, object]
) -> None:
    """An error for each of a million wrong fields would keep everybody waiting, and take gigabytes."""
    await http.put("/collections/notes")

    refused = problem(await http.request(method, path, json=body), 422, "invalid")

    assert len(refused["problems"]) == 1
    assert "at most 64" in refused["detail"] or "at most 100" in refused["detail"]


async def test_a_field_with_a_long_name_is_not_sent_back_whole(http: AsyncClient) -> None:
    """Its beginning is enough to find it."""
    refused = problem(await http.post("/embed", json={"text": "loom", "x" * 100_000: 1}), 422, "invalid")

    assert refused["problems"] == {"x" * 64: "there is no such field"}


@pytest.mark.parametrize("name", ["x" * 129, "a%00b", "a%0Ab", "%FF", "%2E", "%2E%2E"])
async def test_a_collection_name_that_breaks_a_rule_is_422(http: AsyncClient, name: str) -> None:
    """A name that is too long, holds control characters, is no UTF-8 or no part of a URL's path is refused."""
    problem(await http.put(f"/collections/{name}"), 422, "invalid")


async def test_an_id_of_a_megabyte_in_a_path_is_413(http: AsyncClient) -> None:
    """A URL has a size limit of its own."""
    problem(await http.get("/collections/notes/records/" + "x" * 30_000), 413, "too-large")


async def test_a_form_is_415(http: AsyncClient) -> None:
    """A body that says it is no JSON is refused with what to send."""
    problem(await http.post(RECORDS, data={"id": "a"}), 415, "unsupported-media-type")
    problem(
        await http.post(RECORDS, content="{}", headers={"Content-Type": "text/plain"}), 415, "unsupported-media-type"
    )


async def test_a_body_without_a_declared_type_is_read_as_json(http: AsyncClient) -> None:
    """Who sends no Content-Type is taken to send JSON."""
    assert (await http.post(RECORDS, content=b'{"id": "a", "text": "x"}')).status_code == 201
