"""Every error is a problem document, and says no more than it should."""

import pytest
from httpx import AsyncClient
from tests.doors.conftest import World, problem

from embedq import errors
from embedq.telemetry import Event


async def test_an_unknown_path_is_a_problem(http: AsyncClient) -> None:
    """404 of a path that does not exist is a problem document."""
    problem(await http.get("/nowhere"), 404, "not-found")
    problem(await http.get("/collections/notes/records/"), 404, "not-found")
    problem(await http.get("/collections//records"), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/collections", "GET"),
        ("PATCH", "/collections/notes", "DELETE, GET, PUT"),
        ("PUT", "/collections/notes/records", "DELETE, GET, POST"),
        ("OPTIONS", "/collections/notes/records/n1", "DELETE, GET, PATCH"),
        ("GET", "/admin/queue/pause", "POST"),
    ],
)
async def test_a_wrong_method_names_the_right_ones(http: AsyncClient, method: str, path: str, allowed: str) -> None:
    """405 lists all methods of the path, also where several routes share it."""
    answer = await http.request(method, path)

    problem(answer, 405, "method-not-allowed")
    assert answer.headers["Allow"] == allowed


@pytest.mark.parametrize(
    ("error", "status", "slug", "waits"),
    [
        (errors.StoreError("the database is locked"), 503, "store-unavailable", True),
        (errors.StoreFull("the disk is full"), 507, "store-full", True),
        (errors.StoreReadOnly("read-only"), 503, "store-read-only", True),
        (errors.StoreUnusable("corrupt"), 503, "store-unusable", True),
        (errors.SearchUnavailable("no vector"), 503, "search-unavailable", True),
        (errors.Unavailable("refused"), 503, "embedder-unavailable", True),
        (errors.Conflict("another tenant's"), 409, "conflict", False),
        (errors.TooLarge("too long"), 413, "too-large", False),
    ],
)
async def test_each_kind_of_error_has_its_status(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, slug: str, *, waits: bool
) -> None:
    """Our errors leave with the agreed status, their own words, and Retry-After where waiting helps."""

    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(world.client, "search", fail)
    answer = await world.http.post("/collections/notes/search", json={"query": "x"})

    assert problem(answer, status, slug)["detail"] == str(error)
    assert ("Retry-After" in answer.headers) is waits


async def test_an_unexpected_error_leaks_nothing_and_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug answers 500 without its words; the log has them."""

    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(world.client, "search", fail)
    answer = await world.http.post("/collections/notes/search", json={"query": "x"})

    problem(answer, 500, "internal")
    assert "hunter2" not in answer.text
    [(_, level, facts)] = [seen for seen in world.events if seen[0] is Event.REQUEST_FAILED]
    assert (level, facts["errorType"], facts["error"]) == ("error", "RuntimeError", "password=hunter2")
