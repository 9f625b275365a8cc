"""Which embedders callers of the API may choose."""

import pytest
from tests.doors.conftest import DIMENSIONS, Make, problem

from embedq.errors import SettingsError

DEFAULT = f"fake@{DIMENSIONS}"


async def test_only_embedders_in_use_may_be_chosen(make: Make) -> None:
    """Unset, the default and those of existing collections are taken; others are refused with the list."""
    world = await make()
    await world.client.declare("papers", embedder="fake:large@8")

    refused = problem(await world.http.put("/collections/notes", json={"embedder": "fake:other@8"}), 403, "forbidden")

    assert f"choose one of fake:large@8, {DEFAULT}," in refused["detail"]
    assert "EMBEDQ_ALLOWED_EMBEDDERS" in refused["detail"]
    assert [found.declaration.name for found in await world.client.collections()] == ["papers"]
    for name, embedder in (("one", DEFAULT), ("two", "fake:large@8")):
        answer = await world.http.put(f"/collections/{name}", json={"embedder": embedder})
        assert (answer.status_code, answer.json()["embedder"]) == (200, embedder)


async def test_the_operator_lists_what_may_be_chosen(make: Make) -> None:
    """Set, the list decides, beside the default; a collection may repeat its own embedder."""
    world = await make(allowed_embedders=" fake:listed@8 , fake:too@8")
    await world.client.declare("papers", embedder="fake:large@8")

    for name, embedder in (("a", "fake:listed@8"), ("b", "fake:too@8"), ("c", DEFAULT), ("papers", "fake:large@8")):
        assert (await world.http.put(f"/collections/{name}", json={"embedder": embedder})).status_code == 200
    problem(await world.http.put("/collections/d", json={"embedder": "fake:large@8"}), 403, "forbidden")


async def test_a_star_allows_any_and_a_wrong_name_stays_wrong(make: Make) -> None:
    """`*` allows every embedder there is; one that there is not is the request's fault."""
    http = (await make(allowed_embedders="*")).http

    assert (await http.put("/collections/a", json={"embedder": "fake:any@8"})).status_code == 200
    problem(await http.put("/collections/b", json={"embedder": "nobody:knows"}), 422, "invalid")


async def test_a_list_with_an_unknown_embedder_stops_the_start(make: Make) -> None:
    """A mistyped list is refused with its variable."""
    with pytest.raises(SettingsError, match=r"EMBEDQ_ALLOWED_EMBEDDERS: .*nobody"):
        await make(allowed_embedders="nobody:knows")
