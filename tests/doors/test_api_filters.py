"""Filters over HTTP: in a search's body, and as a parameter of lists and deletions."""

import json
from typing import Any

import pytest
from tests.doors.conftest import World, problem

PATH = "/collections/notes/records"


@pytest.fixture
async def filled(world: World) -> World:
    """Put some records."""
    records = [
        {"id": f"n{n}", "text": f"text {n}", "attributes": {"n": n, "by": {"name": "Ada" if n % 2 else "Grace"}}}
        for n in range(5)
    ]
    await world.client.put("notes", [*records, {"id": "other", "text": "text", "tenant": "t", "attributes": {"n": 9}}])
    return world


async def ids(world: World, **asked: Any) -> list[str]:  # noqa: ANN401 query parameters
    """List the records that a filter allows."""
    answer = await world.http.get(PATH, params=asked)
    assert answer.status_code == 200, answer.text
    return [record["id"] for record in answer.json()["records"]]


async def test_a_list_and_a_search_take_the_same_filter(filled: World) -> None:
    """JSON in the body of one and in the query of the other."""
    wanted = {"n": {"gte": 1, "lt": 9}, "$not": {"by.name": "Ada"}}
    body = {"query": "text", "mode": "keyword", "filter": wanted}

    found = (await filled.http.post("/collections/notes/search", json=body)).json()["hits"]

    assert {hit["id"] for hit in found} == {"n2", "n4"}
    assert await ids(filled, filter=json.dumps(wanted)) == ["n2", "n4"]
    assert await ids(filled, filter="{}", limit=2) == ["n0", "n1"]


async def test_a_deletion_by_a_filter_says_how_many(filled: World) -> None:
    """A tenant's are its own, and the same again deletes nothing."""
    asked = {"filter": '{"n": {"gte": 3}}'}

    assert (await filled.http.delete(PATH, params={**asked, "tenant": "none"})).json() == {
        "deleted": 0,
        "purged": False,
    }
    assert (await filled.http.delete(PATH, params=asked)).json() == {"deleted": 3, "purged": False}
    assert (await filled.http.delete(PATH, params={**asked, "purge": "true"})).json() == {"deleted": 3, "purged": True}
    assert (await filled.http.delete(PATH, params={**asked, "purge": "true"})).json() == {"deleted": 0, "purged": True}
    assert await ids(filled) == ["n0", "n1", "n2"]


@pytest.mark.parametrize("wrong", [None, "", "{}", "x", "[" * 4000, "[]", "1", '{"n": {"about": 1}}', '{"n": NaN}'])
async def test_a_deletion_without_a_sound_filter_deletes_nothing(filled: World, wrong: str | None) -> None:
    """Neither none, nor an empty one, nor what is no filter."""
    answer = await filled.http.delete(PATH, params={} if wrong is None else {"filter": wrong})

    assert "filter" in problem(answer, 422, "invalid")["detail"]
    assert len(await ids(filled)) == 6


@pytest.mark.parametrize(
    "asked", [[("filter", '{"n": 1}'), ("filter", '{"n": 2}')], [("filter", '{"n": {"gte": 4}, "n": {"lt": 9}}')]]
)
async def test_of_two_conditions_none_is_left_out_unsaid(filled: World, asked: list[tuple[str, str]]) -> None:
    """A parameter or a name that is given twice is refused: to a deletion, one of the two would be the wrong one."""
    answer = await filled.http.delete(PATH, params=asked)

    assert answer.status_code in (400, 422), answer.text
    assert len(await ids(filled)) == 6
