from urllib.parse import quote

import pytest
from httpx import AsyncClient
from tests.doors.conftest import DIMENSIONS, World, problem

STRANGE_IDS = [
    "a/b",
    "a/b/regenerate",
    "with space",
    "😀",
    "100%",
    "a%2Fb",
    "?#&=+",
    "ümlaut",
    "...",
    "records",
    "search",
]


def of(record_id: str, collection: str = "notes") -> str:
    return f"/collections/{quote(collection, safe='')}/records/{quote(record_id, safe='')}"


async def test_one_record_is_written_and_read_back(http: AsyncClient) -> None:
    """A POST of one record answers 201 with its receipt, and GET shows the record with exactly the agreed fields."""
    made = await http.post("/collections/notes/records", json={"id": "n1", "text": "loom", "attributes": {"a": [1]}})
    read = await http.get("/collections/notes/records/n1")

    assert made.status_code == 201
    assert made.json() == {"id": "n1", "embedding_status": "pending", "job_id": read.json()["job_id"]}
    assert read.json().keys() == {
        *("id", "collection", "text", "attributes", "tenant", "embedding_status"),
        *("reason", "truncated", "job_id", "created_at", "updated_at"),
    }
    assert read.json()["attributes"] == {"a": [1]}


async def test_a_batch_is_answered_in_its_order(http: AsyncClient) -> None:
    """A POST of many records answers with one receipt each, in the order they were sent."""
    records = [{"id": name, "text": name} for name in ("z", "a", "m")]
    made = await http.post("/collections/notes/records", json={"records": records})

    assert made.status_code == 201
    assert [receipt["id"] for receipt in made.json()["records"]] == ["z", "a", "m"]


async def test_the_same_text_again_answers_with_the_same_job(http: AsyncClient) -> None:
    """Putting a text twice queues nothing new."""
    first = await http.post("/collections/notes/records", json={"id": "n1", "text": "loom"})
    second = await http.post("/collections/notes/records", json={"id": "n1", "text": "loom"})

    assert second.json() == first.json()


@pytest.mark.parametrize("record_id", STRANGE_IDS)
async def test_any_id_is_reached_by_its_encoded_path(http: AsyncClient, record_id: str) -> None:
    """Ids with slashes, spaces, percent signs and emoji are read, changed, re-embedded and deleted by path."""
    await http.post("/collections/notes/records", json={"id": record_id, "text": "loom"})

    read = await http.get(of(record_id))
    changed = await http.patch(of(record_id), json={"text": "shuttle"})
    forced = await http.post(of(record_id) + "/regenerate")
    gone = await http.delete(of(record_id))

    assert [answer.status_code for answer in (read, changed, forced, gone)] == [200, 200, 202, 200]
    assert {answer.json()["id"] for answer in (read, changed, forced, gone)} == {record_id}
    assert (await http.get(of(record_id))).status_code == 404


async def test_a_collection_name_may_hold_a_slash(http: AsyncClient) -> None:
    """A collection's name is one encoded part of the path too."""
    made = await http.post("/collections/a%2Fb%20c/records", json={"id": "n1", "text": "loom"})

    assert made.status_code == 201
    assert (await http.get(of("n1", "a/b c"))).json()["collection"] == "a/b c"


async def test_patch_merges_attributes_and_keeps_the_text(http: AsyncClient) -> None:
    """PATCH merges attributes, takes one away by null, and leaves the text alone."""
    await http.post("/collections/notes/records", json={"id": "n1", "text": "loom", "attributes": {"a": 1, "b": 2}})
    await http.patch(of("n1"), json={"attributes": {"b": None, "c": 3}})
    read = (await http.get(of("n1"))).json()

    assert read["attributes"] == {"a": 1, "c": 3}
    assert read["text"] == "loom"


async def test_the_vector_is_shown_only_if_asked_for(world: World) -> None:
    """`?include=vector` adds the vector; without it the field is not there."""
    await world.http.post("/collections/notes/records", json={"id": "n1", "text": "loom"})
    before = (await world.http.get(of("n1"), params={"include": "vector"})).json()
    await world.embed_all()
    after = (await world.http.get(of("n1"), params={"include": "vector"})).json()

    assert before["vector"] is None
    assert len(after["vector"]) == DIMENSIONS
    assert after["embedding_status"] == "embedded"
    assert "vector" not in (await world.http.get(of("n1"))).json()


async def test_records_are_listed_page_by_page(http: AsyncClient) -> None:
    """A list with a limit goes on by its cursor and shows each record once."""
    await http.post("/collections/notes/records", json={"records": [{"id": f"n{i}", "text": "x"} for i in range(5)]})
    seen, cursor = [], None
    while True:
        page = (
            await http.get("/collections/notes/records", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
        ).json()
        seen += [record["id"] for record in page["records"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert sorted(seen) == [f"n{i}" for i in range(5)]


async def test_records_are_listed_by_embedding_status(world: World) -> None:
    """`embedding_status` shows only the records that stand so."""
    await world.http.post("/collections/notes/records", json={"id": "old", "text": "x"})
    await world.embed_all()
    await world.http.post("/collections/notes/records", json={"id": "new", "text": "y"})

    embedded = await world.http.get("/collections/notes/records", params={"embedding_status": "embedded"})
    pending = await world.http.get("/collections/notes/records", params={"embedding_status": "pending"})

    assert [record["id"] for record in embedded.json()["records"]] == ["old"]
    assert [record["id"] for record in pending.json()["records"]] == ["new"]


async def test_purge_is_said_in_the_answer(http: AsyncClient) -> None:
    """DELETE with `?purge=true` says so, and the record is gone."""
    await http.post("/collections/notes/records", json={"id": "n1", "text": "loom"})

    assert (await http.delete(of("n1"), params={"purge": "true"})).json() == {
        "id": "n1",
        "deleted": True,
        "purged": True,
    }
    assert (await http.get(of("n1"))).status_code == 404


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_unknown_record_or_collection_is_404(http: AsyncClient, method: str) -> None:
    """Reading, changing and deleting what is not there answers 404 and declares nothing."""
    body = {"json": {"text": "x"}} if method == "PATCH" else {}
    await http.put("/collections/notes")

    problem(await http.request(method, of("nobody"), **body), 404, "not-found")
    problem(await http.request(method, of("nobody", "nowhere"), **body), 404, "not-found")
    assert [found["name"] for found in (await http.get("/collections")).json()["collections"]] == ["notes"]


async def test_another_tenants_id_is_409(http: AsyncClient) -> None:
    """A put to an id of another tenant is refused."""
    await http.post("/collections/notes/records", json={"id": "n1", "text": "x", "tenant": "one"})

    problem(
        await http.post("/collections/notes/records", json={"id": "n1", "text": "y", "tenant": "two"}), 409, "conflict"
    )
