"""Seed 000: entities without embeddings are found by an index, with a limit, and mended."""

import sqlite3
from collections.abc import AsyncIterator

import pytest
from tests.acceptance.processes import Api, Place

import embedq
from embedq.app import EmbedQ

ENTITIES = 120


@pytest.fixture
def api(place: Place) -> Api:
    """A paused queue with one embedded entity, many without a vector, and twenty of those deleted."""
    api = place.up()
    api.put({"id": "embedded", "text": "has a vector"})
    api.embedded(1)
    api.act("pause")
    api.put(*({"id": f"e{number:03}", "text": f"entity {number}"} for number in range(ENTITIES)))
    for number in range(20):
        assert api.http.delete(f"/collections/notes/records/e{number:03}").is_success
    return api


@pytest.fixture
async def opened(place: Place, api: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EmbedQ]:
    """The same database, as another application opens it."""
    monkeypatch.chdir(place.folder)
    async with embedq.open(f"sqlite:///{place.database}", embedder="fake@16") as eq:
        assert api.popen.poll() is None
        yield eq


async def test_ten_entities_without_embeddings_are_found_unless_more_are_asked_for(opened: EmbedQ) -> None:
    """The default is ten; 50 of many gives exactly 50; a limit above all gives all."""
    assert len(await opened.operator.missing("notes")) == 10
    assert len(await opened.operator.missing("notes", 50)) == 50
    assert len(await opened.operator.missing("notes", 1000)) == ENTITIES - 20


async def test_only_live_entities_without_a_vector_are_found(opened: EmbedQ) -> None:
    """Neither deleted entities nor one with a vector are among those found."""
    found = {record.id for record in await opened.operator.missing("notes", 1000)}

    assert found == {f"e{number:03}" for number in range(20, ENTITIES)}


def test_repair_gives_a_job_to_entities_that_lost_theirs(place: Place, api: Api) -> None:
    """Entities with neither vector nor job are found by repair, queued and embedded; deleted ones are left alone."""
    with sqlite3.connect(place.database, timeout=30) as database:
        database.execute("DELETE FROM embedq_ready")
        database.execute("DELETE FROM embedq_job WHERE status = 0")
        database.execute("UPDATE embedq_tally SET open = 0")
    database.close()
    calls = len(place.calls())

    repaired = place.run("repair", "--json")
    api.act("resume")

    assert '"armed": 100' in repaired.stdout
    api.embedded(ENTITIES - 20 + 1)
    assert sum(call["count"] for call in place.calls()[calls:]) == ENTITIES - 20
