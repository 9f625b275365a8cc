"""HTTP and the command line say the same facts in the same words."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.conftest import Make, Shell, World, problem

URL = ("--url", "sqlite:///test.db")


@pytest.fixture
async def filled(make: Make) -> World:
    """A collection with a vector, a dead letter and a job that waits."""
    world = await make()
    await world.client.put("notes", [{"id": "a", "text": "Call Ada about the loom", "attributes": {"kind": "call"}}])
    await world.embed_all()
    await world.client.put("notes", [{"id": "b", "text": "a text that is refused"}])
    await world.fail_all()
    await world.client.put("notes", [{"id": "c", "text": "a loom that waits"}])
    return world


async def typed(folder: Path, *words: str) -> Any:  # noqa: ANN401 whatever JSON holds
    """Answer with what a command prints for programs."""
    return await asyncio.to_thread(Shell(folder).facts, *words, *URL, EMBEDQ_EMBEDDER="fake@16")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/collections", ("collections",)),
        ("/jobs/embedding", ("jobs",)),
        ("/jobs/embedding?status=failed", ("jobs", "--status", "failed")),
        ("/admin/dead?reason=permanent_error", ("dead", "list", "--reason", "permanent_error")),
        ("/admin/dead/stats", ("dead", "stats")),
    ],
)
async def test_what_is_read_is_the_same(filled: World, tmp_path: Path, path: str, words: tuple[str, ...]) -> None:
    """A list holds the same facts at both doors, to the letter: names, their order, priorities, moments."""
    asked = (await filled.http.get(path)).json()

    assert json.dumps(await typed(tmp_path, *words)) == json.dumps(asked)
    assert "+00:00" not in json.dumps(asked)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/admin/queue/pause", ("pause",)),
        ("/admin/queue/resume", ("resume",)),
        ("/admin/queue/retry-failed", ("retry-failed",)),
        ("/admin/queue/retry-failed?collection=notes", ("retry-failed", "--collection", "notes")),
        ("/admin/dead/replay", ("dead", "replay", "--all")),
    ],
)
async def test_what_was_done_is_said_alike(filled: World, tmp_path: Path, path: str, words: tuple[str, ...]) -> None:
    """The same act on the same queue is answered with the same facts at both doors."""
    await filled.fail_all()
    asked = (await filled.http.post(path)).json()
    await filled.fail_all()

    assert json.dumps(await typed(tmp_path, *words)) == json.dumps(asked)


async def test_a_drain_ends_alike(filled: World, tmp_path: Path) -> None:
    """How it ended, what was waited for and what is left; only the seconds are each door's own."""
    await filled.http.post("/admin/queue/pause")
    asked = (await filled.http.post("/admin/queue/drain?timeout=0")).json()

    found = await typed(tmp_path, "drain", "--timeout", "0")

    assert list(found) == list(asked)
    assert found | {"elapsed": 0} == asked | {"elapsed": 0}
    assert (found["status"], found["waited_for"], found["pending"]) == ("drained", "leased", 1)


@pytest.mark.parametrize(("mode", "ids"), [("keyword", {"a", "c"}), ("semantic", {"a"}), ("hybrid", {"a", "c"})])
async def test_a_search_is_the_same(filled: World, tmp_path: Path, mode: str, ids: set[str]) -> None:
    """Hits, mode, reason and freshness; only the waiting job has grown older meanwhile."""
    body = {"query": "loom", "mode": mode}
    asked = (await filled.http.post("/collections/notes/search", json=body)).json()

    found = await typed(tmp_path, "search", "notes", "loom", "-m", mode)

    waited = [answer["freshness"].pop("oldest_pending_seconds") for answer in (asked, found)]
    assert json.dumps(found) == json.dumps(asked)
    assert {hit["id"] for hit in found["hits"]} == ids
    assert 0 <= waited[0] <= waited[1]


async def test_the_status_is_the_same(filled: World, tmp_path: Path) -> None:
    """All facts of the queue; a worker's moments too are written with a Z."""
    await filled.http.post("/workers/register", json={"id": "elsewhere"})
    await filled.http.post("/workers/elsewhere/heartbeat", json={"last_success_at": "2026-01-02T03:04:05+01:00"})
    asked = (await filled.http.get("/admin/queue/status")).json()

    found = await typed(tmp_path, "status")

    for answer in (asked, found):
        del answer["oldest_pending_seconds"]
    assert json.dumps(found) == json.dumps(asked)
    [worker] = found["workers"]["workers"]
    assert worker["last_success_at"] == "2026-01-02T02:04:05Z"
    assert worker["last_seen_at"].endswith("Z")


async def test_stale_jobs_are_taken_back_alike(filled: World, tmp_path: Path) -> None:
    """Without a threshold both doors leave a fresh lease alone; with 0 both take it back and say so alike."""
    [lease] = await filled.lease()
    none = {"requeued": {"total": 0, "by_collection": {}}, "jobs": []}
    taken = {"requeued": {"total": 1, "by_collection": {"notes": 1}}, "jobs": [lease.job_id]}

    assert (await filled.http.post("/admin/queue/requeue-stale")).json() == none
    assert await typed(tmp_path, "requeue-stale") == none
    assert await typed(tmp_path, "requeue-stale", "--threshold-minutes", "0") == taken
    await filled.lease()
    assert (await filled.http.post("/admin/queue/requeue-stale?threshold_minutes=0")).json() == taken


async def test_a_replayed_job_is_shown_alike(filled: World, tmp_path: Path) -> None:
    """The command answers with the job as the API shows it."""
    [dead] = (await filled.http.get("/admin/dead")).json()["jobs"]

    shown = await typed(tmp_path, "dead", "replay", dead["id"])

    assert json.dumps(shown) == json.dumps((await filled.http.get(f"/jobs/embedding/{dead['id']}")).json())


async def test_the_fleet_is_the_same_wherever_it_stands(filled: World) -> None:
    """A worker has the same facts in the registry, in the status and in readiness."""
    await filled.http.post("/workers/register", json={"id": "elsewhere"})

    status = (await filled.http.get("/admin/queue/status")).json()["workers"]
    ready = (await filled.http.get("/health/ready")).json()["workers"]
    registry = (await filled.http.get("/workers")).json()

    assert status == ready == {name: value for name, value in registry.items() if name != "next_cursor"}
    assert [worker["id"] for worker in status["workers"]] == ["elsewhere"]


@pytest.mark.parametrize("reason", ["record_deleted", "cancelled"])
async def test_a_reason_that_no_dead_letter_has_is_refused(filled: World, reason: str) -> None:
    """Asking for one is a slip, not an empty list."""
    problem(await filled.http.get(f"/admin/dead?reason={reason}"), 422, "invalid")
    problem(await filled.http.post("/admin/dead/replay", json={"reason": reason}), 422, "invalid")
