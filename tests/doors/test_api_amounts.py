"""What a caller with a key may ask for, and what it brings."""

from typing import Any

import pytest
from httpx import AsyncClient
from tests.doors.conftest import Make, World, problem

from embedq.model import Process, Query, WorkerId, WorkerInfo
from embedq.telemetry import Event

LONG = "loom " * 2000  # 10,000 bytes


def troubles(world: World) -> list[Any]:
    """List what was told of the database's troubles."""
    return [facts for event, _, facts in world.events if event in {Event.STORE_TROUBLE, Event.REQUEST_FAILED}]


@pytest.mark.parametrize("mode", ["auto", "semantic", "keyword", "hybrid"])
async def test_only_the_final_hits_are_read(make: Make, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """However deep the rankings go, the texts of k records are read, and no others."""
    world, read = await make(), list[int]()
    await world.client.put("notes", [{"id": f"{n:02}", "text": f"{LONG} {n}"} for n in range(60)])
    await world.embed_all()
    kind, bare = type(world.store), list[bool]()
    show, near, worded = kind.show, kind.search_vector, kind.search_words

    async def by_vector(self: Any, name: str, vector: Any, query: Query) -> Any:  # noqa: ANN401 as it is
        bare.append(query.bare)
        return await near(self, name, vector, query)

    async def by_words(self: Any, name: str, words: str, query: Query) -> Any:  # noqa: ANN401 as it is
        bare.append(query.bare)
        return await worded(self, name, words, query)

    async def counted(self: Any, collection: str, ids: Any, **others: Any) -> Any:  # noqa: ANN401 as it is
        read.append(len(ids))
        return await show(self, collection, ids, **others)

    for name, spy in (("show", counted), ("search_vector", by_vector), ("search_words", by_words)):
        monkeypatch.setattr(kind, name, spy)
    answer = await world.http.post("/collections/notes/search", json={"query": f"{LONG} 7", "k": 3, "mode": mode})

    hits = answer.json()["hits"]
    assert len(hits) == 3
    assert {len(hit["text"]) > 9000 for hit in hits} == {True}
    assert read == [3]
    assert set(bare) == {True}


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_a_hit_whose_text_changes_under_the_search_is_stale(
    world: World, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A text that is read after its vector was found may be a newer one: the hit says so."""
    await world.client.put("notes", [{"id": "a", "text": "loom"}])
    await world.embed_all()
    kind = type(world.store)
    near = kind.search_vector

    async def overtaken(self: Any, name: str, vector: Any, query: Query) -> Any:  # noqa: ANN401 as it is
        found = await near(self, name, vector, query)
        await world.client.put("notes", [{"id": "a", "text": "yarn"}])
        return found

    monkeypatch.setattr(kind, "search_vector", overtaken)
    answer = await world.http.post("/collections/notes/search", json={"query": "loom", "mode": mode})

    assert [(hit["text"], hit["stale"]) for hit in answer.json()["hits"]] == [("yarn", True)]


async def test_a_search_that_brings_too_much_is_413(make: Make) -> None:
    """An answer beyond its bytes is refused with the setting that helps; a smaller k is answered."""
    world = await make(max_answer_bytes=50_000)
    await world.client.put("notes", [{"id": f"{n}", "text": f"{LONG} {n}"} for n in range(10)])
    ask = {"query": "loom", "mode": "keyword"}

    refused = problem(await world.http.post("/collections/notes/search", json=ask | {"k": 10}), 413, "too-large")
    answered = await world.http.post("/collections/notes/search", json=ask | {"k": 4})

    assert "EMBEDQ_MAX_ANSWER_BYTES" in refused["detail"]
    assert len(answered.json()["hits"]) == 4


async def test_a_page_of_long_records_is_short(make: Make) -> None:
    """A list of records ends at its bytes and goes on at its cursor; one record is always there."""
    world = await make(max_answer_bytes=25_000)
    await world.client.put("notes", [{"id": f"{n}", "text": f"{LONG} {n}"} for n in range(7)])
    sizes, ids, cursor = list[int](), list[str](), ""
    while True:
        page = (await world.http.get(f"/collections/notes/records{cursor}")).json()
        sizes.append(len(page["records"]))
        ids += [record["id"] for record in page["records"]]
        if page["next_cursor"] is None:
            break
        cursor = f"?cursor={page['next_cursor']}"

    assert ids == [f"{n}" for n in range(7)]
    assert max(sizes) == 3


async def test_filters_are_bound_and_a_thousand_values_work(world: World) -> None:
    """64 names and 1,000 values each are taken; more are the caller's mistake, and nobody's trouble."""
    await world.client.put("notes", [{"id": "a", "text": "loom", "attributes": {"n": 5, "s": "5"}}])

    async def ask(wanted: dict[str, Any]) -> Any:  # noqa: ANN401 an answer
        body = {"query": "loom", "mode": "keyword", "filter": wanted}
        return await world.http.post("/collections/notes/search", json=body)

    many = {"n": list(range(1000)), "s": [str(n) for n in range(1000)]}
    assert [hit["id"] for hit in (await ask(many)).json()["hits"]] == ["a"]
    assert (await ask({f"a{n}": n for n in range(64)})).json()["hits"] == []
    problem(await ask({f"a{n}": n for n in range(65)}), 422, "invalid")
    problem(await ask({"n": list(range(1001))}), 422, "invalid")
    problem(await ask({"n": "a\0b"}), 422, "invalid")
    problem(await ask({"n": 2**70}), 422, "invalid")
    assert troubles(world) == []


async def test_collections_come_in_pages(http: AsyncClient) -> None:
    """A list of collections has a limit and a cursor; without them it is what it was."""
    names = [f"c{n}" for n in range(5)]
    for name in names:
        await http.put(f"/collections/{name}")

    first = (await http.get("/collections?limit=2")).json()
    rest = (await http.get(f"/collections?limit=3&cursor={first['next_cursor']}")).json()

    assert [one["name"] for one in first["collections"]] == names[:2]
    assert [one["name"] for one in rest["collections"]] == names[2:]
    assert rest["next_cursor"] is None
    assert [one["name"] for one in (await http.get("/collections")).json()["collections"]] == names
    problem(await http.get("/collections?limit=1001"), 422, "invalid")


async def test_workers_come_in_pages_with_the_figures_of_all(http: AsyncClient) -> None:
    """A list of workers has a limit and a cursor; counts are those of the whole fleet on every page."""
    ids = [f"w{n}" for n in range(5)]
    for id_ in ids:
        await http.post("/workers/register", json={"id": id_})
        await http.post(f"/workers/{id_}/heartbeat", json={"succeeded": 2})

    first = (await http.get("/workers?limit=2")).json()
    rest = (await http.get(f"/workers?cursor={first['next_cursor']}")).json()

    assert [worker["id"] for worker in first["workers"] + rest["workers"]] == ids
    assert (first["num_workers"], first["total_jobs_succeeded"]) == (rest["num_workers"], 10) == (5, 10)
    assert rest["next_cursor"] is None


async def test_a_heartbeat_by_http_cannot_turn_the_fleet_critical(http: AsyncClient) -> None:
    """What a stranger says of itself may worry people; the service stays in turn."""
    await http.post("/workers/register", json={"id": "w1"})
    beat = await http.post("/workers/w1/heartbeat", json={"health": "CRITICAL", "halted": ["fake@16"], "failed": 9})

    ready = await http.get("/health/ready")

    assert beat.status_code == 200
    assert (ready.status_code, ready.json()["health"]) == (200, "DEGRADED")
    assert (await http.get("/admin/queue/status")).json()["health"] == "DEGRADED"


async def test_nobody_registers_as_one_of_our_own_workers(world: World) -> None:
    """The id of a worker that runs here cannot be taken over: its process stays known."""
    process = Process(host="here", boot="b", pid=7, born="1")
    await world.store.register(WorkerInfo(id=WorkerId("own"), process=process, version="1", embedder="fake"))

    problem(await world.http.post("/workers/register", json={"id": "own"}), 409, "conflict")

    [worker] = await world.operator.workers()
    assert worker.info.process == process


async def test_a_number_is_no_moment(http: AsyncClient) -> None:
    """A heartbeat holds exactly what the page says: no number for a moment, no text for a count."""
    await http.post("/workers/register", json={"id": "w1"})

    problem(await http.post("/workers/w1/heartbeat", json={"last_success_at": 5}), 422, "invalid")
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):  # in UTC, out of the calendar
        problem(await http.post("/workers/w1/heartbeat", json={"last_success_at": moment}), 422, "invalid")
    problem(await http.post("/workers/w1/heartbeat", json={"succeeded": "5"}), 422, "invalid")
    problem(await http.post("/workers/w1/heartbeat", json={"error_patterns": {f"{n}": 1 for n in range(65)}}), 422)
