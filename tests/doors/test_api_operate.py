"""Collections, jobs, workers, the queue and dead letters over HTTP."""

from datetime import datetime

import pytest
from httpx import AsyncClient
from tests.doors.conftest import Make, World, problem

JOB_FIELDS = {
    *("id", "collection", "record_id", "space", "status", "priority", "attempts", "max_attempts", "crashes"),
    *("created_at", "started_at", "completed_at", "lease_until", "worker_id", "processing_time_ms", "reason", "error"),
}


async def put(http: AsyncClient, *ids: str, collection: str = "notes") -> list[str]:
    records = [{"id": name, "text": f"text of {name}"} for name in ids]
    made = await http.post(f"/collections/{collection}/records", json={"records": records})
    return [receipt["job_id"] for receipt in made.json()["records"]]


async def test_a_collection_is_declared_read_listed_and_removed(http: AsyncClient) -> None:
    """PUT declares (twice is once), GET shows it, DELETE takes it away when its name is repeated."""
    body = {"text_from": ["title", "body"], "priority": "high", "retry": {"base_seconds": 2, "max_attempts": 5}}
    made = await http.put("/collections/notes", json=body)
    again = await http.put("/collections/notes", json=body)

    assert made.status_code == again.status_code == 200
    assert made.json() == again.json() == (await http.get("/collections/notes")).json()
    assert made.json()["text_from"] == ["title", "body"]
    assert made.json()["priority"] == "high"
    assert made.json()["retry"] == {
        "base_seconds": 2,
        "factor": 2,
        "cap_seconds": 300,
        "jitter": 0.2,
        "max_attempts": 5,
    }
    assert (await http.get("/collections")).json() == {"collections": [made.json()], "next_cursor": None}
    problem(await http.delete("/collections/notes"), 409, "conflict")
    problem(await http.delete("/collections/notes?confirm=other"), 409, "conflict")
    assert (await http.delete("/collections/notes?confirm=notes")).json() == {"name": "notes", "deleted": True}
    problem(await http.get("/collections/notes"), 404, "not-found")


async def test_the_text_is_made_from_attributes(http: AsyncClient) -> None:
    """A collection with `text_from` joins its attributes, in order."""
    await http.put("/collections/notes", json={"text_from": ["title", "body"]})
    await http.post("/collections/notes/records", json={"id": "a", "attributes": {"body": "two", "title": "one"}})

    assert (await http.get("/collections/notes/records/a")).json()["text"] == "one\ntwo"


async def test_another_embedder_over_records_is_409(make: Make) -> None:
    """Another embedder over existing records is a migration, which does not exist yet."""
    http = (await make(allowed_embedders="fake:other@8")).http
    await put(http, "a")

    problem(await http.put("/collections/notes", json={"embedder": "fake:other@8"}), 409, "conflict")


async def test_a_job_shows_exactly_the_agreed_fields(world: World) -> None:
    """A job is read by its id, with the fields of the contract and no others, while it waits and when it is done."""
    [job_id] = await put(world.http, "a")
    waiting = (await world.http.get(f"/jobs/embedding/{job_id}")).json()
    await world.embed_all()
    done = (await world.http.get(f"/jobs/embedding/{job_id}")).json()

    assert waiting.keys() == done.keys() == JOB_FIELDS
    assert (waiting["id"], waiting["record_id"], waiting["status"], waiting["priority"]) == (
        job_id,
        "a",
        "pending",
        "normal",
    )
    assert done["status"] == "completed"
    assert datetime.fromisoformat(done["completed_at"]).tzinfo is not None
    problem(await world.http.get("/jobs/embedding/nobody"), 404, "not-found")


async def test_jobs_are_listed_by_status_and_collection(world: World) -> None:
    """The list takes a status and a collection, and pages by cursor."""
    await put(world.http, "a", "b", "c")
    await put(world.http, "d", collection="other")

    first = (await world.http.get("/jobs/embedding?status=pending&collection=notes&limit=2")).json()
    rest = (
        await world.http.get(
            "/jobs/embedding",
            params={"status": "pending", "collection": "notes", "limit": 2, "cursor": first["next_cursor"]},
        )
    ).json()

    assert {job["record_id"] for job in first["jobs"] + rest["jobs"]} == {"a", "b", "c"}
    assert rest["next_cursor"] is None
    assert (await world.http.get("/jobs/embedding?status=failed")).json() == {"jobs": [], "next_cursor": None}
    problem(await world.http.get("/jobs/embedding?collection=nowhere"), 404, "not-found")


async def test_a_job_is_created_for_a_record(world: World) -> None:
    """POST gives a record a job when forced, answers 200 when there is nothing to do, 404 when there is no record."""
    await put(world.http, "a")
    await world.embed_all()
    forced = await world.http.post(
        "/jobs/embedding", json={"collection": "notes", "record_id": "a", "force": True, "priority": "urgent"}
    )
    await world.embed_all()

    assert forced.status_code == 201
    assert forced.json().keys() == JOB_FIELDS
    assert (forced.json()["status"], forced.json()["priority"]) == ("pending", "urgent")
    assert (await world.http.post("/jobs/embedding", json={"collection": "notes", "record_id": "a"})).status_code in {
        200,
        201,
    }
    problem(await world.http.post("/jobs/embedding", json={"collection": "notes", "record_id": "z"}), 404, "not-found")
    problem(await world.http.post("/jobs/embedding", json={"collection": "zzz", "record_id": "a"}), 404, "not-found")
    problem(await world.http.post("/jobs/embedding", json={"record_id": "a"}), 422, "invalid")


async def test_a_job_is_cancelled_once(http: AsyncClient) -> None:
    """DELETE cancels a pending job and its record says so; a finished one stays as it is."""
    [job_id] = await put(http, "a")

    cancelled = await http.delete(f"/jobs/embedding/{job_id}")

    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    read = (await http.get("/collections/notes/records/a")).json()
    assert (read["embedding_status"], read["reason"]) == ("failed", "cancelled")
    problem(await http.delete(f"/jobs/embedding/{job_id}"), 409, "conflict")
    problem(await http.delete("/jobs/embedding/nobody"), 404, "not-found")


async def test_workers_register_beat_and_are_listed(http: AsyncClient) -> None:
    """The registry takes a worker, its heartbeats with health, and shows it; an unknown one is 404."""
    made = await http.post("/workers/register", json={"id": "w1", "host": "elsewhere", "pid": 7})
    beat = await http.post(
        "/workers/w1/heartbeat", json={"health": "DEGRADED", "consecutive_failures": 5, "error_patterns": {"500": 5}}
    )

    assert made.status_code == 201
    assert made.json()["id"] == "w1"
    assert beat.status_code == 200
    [worker] = (await http.get("/workers")).json()["workers"]
    assert (worker["id"], worker["host"], worker["health"], worker["alive"]) == ("w1", "elsewhere", "DEGRADED", True)
    assert worker["error_patterns"] == {"500": 5}
    assert (await http.post("/workers/register")).json()["id"]
    problem(await http.post("/workers/nobody/heartbeat"), 404, "not-found")
    problem(await http.post("/workers/w1/heartbeat", json={"health": "FINE"}), 422, "invalid")


async def test_the_queue_status_has_the_agreed_shape(world: World) -> None:
    """The status counts jobs by state, in all and per collection, and shows pause, workers and health."""
    await put(world.http, "a", "b")
    await put(world.http, "c", collection="other")
    await world.embed_all("notes")

    status = (await world.http.get("/admin/queue/status")).json()

    assert status["queue"].keys() == {"pending", "processing", "completed", "failed", "cancelled"}
    assert status["queue"]["completed"] == {"total": 2, "by_collection": {"notes": 2, "other": 0}}
    assert status["queue"]["pending"]["total"] == 1
    assert status["paused"] is False
    assert status["workers"].keys() >= {"workers", "num_workers"}
    assert status["health"] in {"HEALTHY", "DEGRADED", "CRITICAL"}


async def test_pause_holds_until_resume(world: World) -> None:
    """While paused nothing is leased, and the status says so."""
    await put(world.http, "a")

    assert (await world.http.post("/admin/queue/pause")).json() == {"status": "paused"}
    assert (await world.http.get("/admin/queue/status")).json()["paused"] is True
    assert await world.lease() == []
    assert (await world.http.post("/admin/queue/resume")).json() == {"status": "resumed"}
    assert len(await world.lease()) == 1


async def test_a_drain_does_not_wait_for_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no worker runs it is answered long before its time, with what to do."""
    monkeypatch.setattr("embedq.operator.draining.GRACE", 0.1)
    await world.http.post("/collections/notes/records", json={"id": "a", "text": "x"})

    answer = (await world.http.post("/admin/queue/drain?timeout=120")).json()

    assert (answer["status"], answer["pending"], answer["processing"]) == ("no_worker", 1, 0)
    assert "`embedq work`" in answer["reason"]


async def test_drain_says_how_it_ended(world: World) -> None:
    """Drain times out while work is left, ends when there is none, and while paused waits for leased jobs only."""
    await put(world.http, "a")
    late = (await world.http.post("/admin/queue/drain?timeout=0")).json()
    await world.http.post("/admin/queue/pause")
    paused = (await world.http.post("/admin/queue/drain?timeout=0")).json()
    await world.http.post("/admin/queue/resume")
    await world.embed_all()
    empty = (await world.http.post("/admin/queue/drain")).json()

    assert (late["status"], late["remaining"]) == ("timeout", 1)
    assert (paused["status"], paused["waited_for"], paused["pending"]) == ("drained", "leased", 1)
    assert (empty["status"], empty["waited_for"]) == ("drained", "all")
    problem(await world.http.post("/admin/queue/drain?timeout=-1"), 422, "invalid")
    problem(await world.http.post("/admin/queue/drain?timeout=nan"), 422, "invalid")


async def test_failed_jobs_are_listed_grouped_and_replayed(world: World) -> None:
    """Dead letters say why; one is replayed by id, the rest by filter, and what is not dead cannot be."""
    await put(world.http, "a", "b", "c")
    await world.fail_all()

    dead = (await world.http.get("/admin/dead?collection=notes&reason=permanent_error")).json()
    stats = (await world.http.get("/admin/dead/stats")).json()
    one = await world.http.post(f"/admin/dead/{dead['jobs'][0]['id']}/replay")
    again = await world.http.post(f"/admin/dead/{dead['jobs'][0]['id']}/replay")
    rest = await world.http.post("/admin/dead/replay", json={"collection": "notes", "reason": "permanent_error"})

    assert dead["jobs"][0].keys() == JOB_FIELDS | {"first_attempt_at", "last_attempt_at"}
    assert dead["jobs"][0]["error"] == {"category": "PERMANENT", "code": "400", "message": "no", "stack": None}
    assert (stats["total"], stats["causes"][0]["count"], stats["causes"][0]["reason"]) == (3, 3, "permanent_error")
    assert (one.status_code, one.json()["status"]) == (200, "pending")
    problem(again, 409, "conflict")
    assert rest.json() == {"replayed": {"total": 2, "by_collection": {"notes": 2}}}
    problem(await world.http.post("/admin/dead/nobody/replay"), 404, "not-found")
    problem(await world.http.post("/admin/dead/replay", json={"collection": "nowhere"}), 404, "not-found")
    problem(await world.http.post("/admin/dead/replay", json={"reason": "bad_luck"}), 422, "invalid")


async def test_retry_failed_arms_all_dead_letters(world: World) -> None:
    """retry-failed says how many it armed, in all and per collection."""
    await put(world.http, "a", "b")
    await world.fail_all()

    answer = await world.http.post("/admin/queue/retry-failed")

    assert answer.json() == {"retried": {"total": 2, "by_collection": {"notes": 2}}}
    assert (await world.http.get("/admin/queue/status")).json()["queue"]["failed"]["total"] == 0


async def test_requeue_stale_takes_leased_jobs_back(world: World) -> None:
    """requeue-stale with a threshold of 0 takes back what is leased; with the default it leaves fresh leases alone."""
    [job_id] = await put(world.http, "a")
    await world.lease()

    fresh = (await world.http.post("/admin/queue/requeue-stale")).json()
    stale = (await world.http.post("/admin/queue/requeue-stale?threshold_minutes=0")).json()

    assert fresh["requeued"]["total"] == 0
    assert stale == {"requeued": {"total": 1, "by_collection": {"notes": 1}}, "jobs": [job_id]}


async def test_readiness_tells_of_the_fleet(http: AsyncClient) -> None:
    """Without keys, this machine's callers see readiness with its details."""
    ready = await http.get("/health/ready")

    assert ready.status_code in {200, 503}
    assert ready.json()["database"] == "ok"
    assert ready.json()["status"] == ("ready" if ready.status_code == 200 else "not_ready")


@pytest.mark.parametrize("mode", ["auto", "keyword", "hybrid", "semantic"])
async def test_search_says_how_it_was_found(world: World, mode: str) -> None:
    """Each mode finds the record; the answer names the mode used, hits, and freshness."""
    await put(world.http, "a")
    await world.embed_all()

    found = await world.http.post("/collections/notes/search", json={"query": "text of a", "mode": mode, "k": 3})

    assert found.status_code == 200, found.text
    body = found.json()
    assert body.keys() == {"hits", "mode_used", "reason", "freshness"}
    assert body["mode_used"] == ("hybrid" if mode == "auto" else mode)
    assert body["hits"][0].keys() == {"id", "score", "text", "attributes", "stale"}
    assert body["hits"][0]["id"] == "a"
    assert body["freshness"] == {"coverage": 1.0, "pending": 0, "oldest_pending_seconds": None, "trouble": None}


async def test_search_in_an_unknown_collection_is_404(http: AsyncClient) -> None:
    """Search declares nothing."""
    problem(await http.post("/collections/nowhere/search", json={"query": "x"}), 404, "not-found")


async def test_a_filter_holds(world: World) -> None:
    """A filter by one value or several is kept to."""
    records = [{"id": name, "text": "loom", "attributes": {"kind": name}} for name in ("a", "b", "c")]
    await world.http.post("/collections/notes/records", json={"records": records})
    body = {"query": "loom", "mode": "keyword", "filter": {"kind": ["a", "b"]}}

    found = (await world.http.post("/collections/notes/search", json=body)).json()

    assert {hit["id"] for hit in found["hits"]} == {"a", "b"}
