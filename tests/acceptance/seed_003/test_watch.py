"""Seed 003: the queue, its workers and its figures can be seen, and only by those who may."""

import httpx
from tests.acceptance.processes import Place
from tests.acceptance.waiting import until


def test_the_status_shows_depth_per_state_and_collection_and_every_worker(place: Place) -> None:
    """The queue status holds totals per state and collection, the pause, and each worker with its figures."""
    api = place.up(EMBEDQ_FAKE_FAULTS="bad=POISON", EMBEDQ_HEARTBEAT_SECONDS=0.2, EMBEDQ_WORKERS=2)
    api.put({"id": "a", "text": "one"}, {"id": "b", "text": "POISON"}, collection="manuals")
    api.put({"id": "c", "text": "two"}, collection="notes")
    api.counted(completed=2, failed=1)

    status = until(lambda: (s := api.status())["workers"]["total_jobs_processed"] == 3 and s, "figures of all workers")

    assert status["queue"]["completed"] == {"total": 2, "by_collection": {"manuals": 1, "notes": 1}}
    assert status["queue"]["failed"] == {"total": 1, "by_collection": {"manuals": 1, "notes": 0}}
    assert {name for name, found in status["queue"].items() if found["total"] == 0} == {
        "pending",
        "processing",
        "cancelled",
    }
    assert status["paused"] is False
    fleet = status["workers"]
    assert fleet["num_workers"] == len(fleet["workers"]) == 2
    assert (fleet["total_jobs_succeeded"], fleet["total_jobs_failed"]) == (2, 1)
    assert {worker["pid"] for worker in fleet["workers"]} == {api.pid}
    assert {worker["health"] for worker in fleet["workers"]} == {"HEALTHY"}


def test_readiness_tells_of_worker_health(place: Place) -> None:
    """/health answers for the process, /health/ready for the database and the fleet."""
    api = place.up()

    ready = api.http.get("/health/ready")

    assert api.http.get("/health").json()["status"] == "ok"
    assert ready.status_code == 200
    assert (ready.json()["status"], ready.json()["health"]) == ("ready", "HEALTHY")
    assert ready.json()["workers"]["num_workers"] == 2


def test_an_api_without_workers_takes_writes_and_says_that_nobody_embeds_them(place: Place) -> None:
    """An API whose workers are not enabled yet serves all routes, and its status says that jobs wait for nobody."""
    api = place.serve()

    api.put({"id": "a", "text": "one"})

    status = api.status()
    assert (status["queue"]["pending"]["total"], status["workers"]["num_workers"]) == (1, 0)
    assert status["health"] == "DEGRADED"
    assert any("no worker is alive" in note for note in status["notes"])


def test_metrics_show_the_queue_for_prometheus(place: Place) -> None:
    """/metrics has the queue's depth per state and collection, coverage, and the time from put to stored."""
    api = place.up()
    api.put({"id": "a", "text": "one"})
    api.embedded(1)

    written = api.http.get("/metrics").text

    assert 'embedq_queue_jobs{collection="notes",status="completed"} 1.0' in written
    assert 'embedq_coverage_ratio{collection="notes"} 1.0' in written
    assert "embedq_workers_alive 2.0" in written
    assert "embedq_put_to_stored_seconds_count 1.0" in written


def test_admin_routes_need_the_key(place: Place) -> None:
    """With EMBEDQ_API_KEY set, only its bearer operates; the read key looks, and nobody else sees more than health."""
    api = place.serve(EMBEDQ_API_KEY="a-secret-key-for-all", EMBEDQ_READ_KEY="a-read-key-for-some")
    reader = httpx.Client(base_url=api.url, headers={"Authorization": "Bearer a-read-key-for-some"})
    stranger = httpx.Client(base_url=api.url)

    assert stranger.get("/health").status_code == 200
    assert stranger.get("/health/ready").json() == {"status": "ready"}
    for path in ("/admin/queue/status", "/metrics", "/workers", "/collections"):
        assert stranger.get(path).status_code == 401, path
    assert stranger.post("/admin/queue/pause").status_code == 401
    assert reader.get("/admin/queue/status").status_code == 200
    assert reader.post("/admin/queue/pause").status_code == 403
    assert not api.status()["paused"]
    assert api.act("pause") == {"status": "paused"}
    assert "a-secret-key-for-all" not in api.errors + api.output


def test_without_a_key_no_other_address_is_served(place: Place) -> None:
    """An API without a key refuses to bind to an address that others can reach."""
    refused = place.try_to("serve", "--host", "0.0.0.0")  # noqa: S104 it must be refused

    assert refused.wait() == 1
    assert "EMBEDQ_API_KEY" in refused.errors
