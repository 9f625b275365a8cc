"""README and tutorial, typed word for word where embedq came from its wheel with the local model."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.processes import Api
from tests.house.pages import DOCS, ROOT, SECONDS, blocks, curl_knows_json, typed
from tests.install.environments import Environment, clean

PAGES = [ROOT / "README.md", DOCS / "tutorial.md"]


@pytest.fixture
def server(environment: Environment, tmp_path: Path) -> Iterator[Api]:
    """What `embedq up` starts."""
    command = (environment.programs.embedq, "up")
    api = Api(command, folder=tmp_path, name="up", environment=clean() | {"EMBEDQ_PORT": "0"})
    yield api
    assert api.leave() == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_typed(environment: Environment, server: Api, tmp_path: Path, page: Path) -> None:
    """Each command and program ends well, with the real model behind it."""
    if not curl_knows_json():
        pytest.skip("curl 7.82 or newer is not here")
    where = {"address": server.url, "folder": tmp_path, "environment": clean()}

    for kind, code in blocks(page):
        if kind in {"sh", "python"}:
            typed(kind, code, programs=environment.programs, **where)
            server.act("drain", timeout=SECONDS)


def test_a_record_is_found_by_its_meaning(environment: Environment, server: Api, tmp_path: Path) -> None:
    """No word of the query stands in its text."""
    server.put({"id": "n1", "text": "Call Ada about the loom"}, {"id": "n2", "text": "Buy bread"})
    server.act("drain", timeout=SECONDS)

    done = environment.run(tmp_path, "search", "notes", "weaving", "--mode", "semantic", "--json")

    assert json.loads(done.stdout)["hits"][0]["id"] == "n1"
