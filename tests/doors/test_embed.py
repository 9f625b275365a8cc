"""Vectors of texts over HTTP and on the command line."""

import json

import pytest
from tests.doors.conftest import DIMENSIONS, Make, Shell, problem
from tests.doors.test_api_guard import KEYS, READ

DEFAULT = f"fake@{DIMENSIONS}"


async def test_a_text_and_texts_are_answered_alike(make: Make) -> None:
    """One or some, with the space that they are in."""
    world = await make()
    await world.client.declare("notes")

    one = (await world.http.post("/embed", json={"text": "loom", "collection": "notes"})).json()
    some = (await world.http.post("/embed", json={"texts": ["shuttle", "loom"], "embedder": DEFAULT})).json()

    assert one["space"] == some["space"] == DEFAULT
    assert one["vectors"] == [some["vectors"][1]]
    assert [len(vector) for vector in some["vectors"]] == [DIMENSIONS, DIMENSIONS]


async def test_the_read_key_is_enough(make: Make) -> None:
    """As for a search; without a key there is none."""
    http = (await make(**KEYS)).http

    assert (await http.post("/embed", json={"text": "loom"}, headers=READ)).status_code == 200
    problem(await http.post("/embed", json={"text": "loom"}), 401, "unauthorized")


async def test_only_embedders_in_use_may_be_named(make: Make) -> None:
    """Another may cost money, or send texts to a third party; a collection brings its own."""
    world = await make(allowed_embedders="fake:listed@8")
    await world.client.declare("papers", embedder="fake:large@8")

    problem(await world.http.post("/embed", json={"text": "x", "embedder": "fake:large@8"}), 403, "forbidden")
    for chosen in ({"embedder": "fake:listed@8"}, {"collection": "papers"}):
        assert len((await world.http.post("/embed", json={"text": "x", **chosen})).json()["vectors"][0]) == 8


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"text": "a", "texts": ["a"]}, 422),
        ({"texts": []}, 422),
        ({"texts": ["a"] * 101}, 422),
        ({"text": "a", "purpose": "fun"}, 422),
        ({"text": "a", "collection": "none"}, 404),
        ({"texts": ["a" * 30_000] * 40}, 413),
    ],
)
async def test_what_cannot_be_embedded_is_refused(make: Make, body: dict[str, object], status: int) -> None:
    """Numbers and sizes are bounded, and each refusal says why."""
    http = (await make()).http

    assert (await http.post("/embed", json=body)).status_code == status


async def test_an_embedder_that_cannot_answer_is_503(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The problem says the reason."""
    monkeypatch.setenv("EMBEDQ_FAKE_FAULTS", "refused=9")
    http = (await make()).http

    refused = problem(await http.post("/embed", json={"text": "loom"}), 503, "embedder-unavailable")

    assert "no vector: The fake provider failed" in refused["detail"]


def test_a_line_is_a_vector_as_sql_takes_it(shell: Shell) -> None:
    """One per text, in their order; with --json what HTTP answers."""
    shell.run("init")

    lines = shell.run("embed", "a loom", "a shuttle", "--embedder", "fake@4").stdout.splitlines()
    facts = shell.facts("embed", "a loom", "a shuttle", "--embedder", "fake@4")

    assert [line[0] + line[-1] for line in lines] == ["[]", "[]"]
    assert [json.loads(line) for line in lines] == [pytest.approx(vector) for vector in facts["vectors"]]
    assert facts["space"] == "fake@4"


def test_trouble_is_one_sentence(shell: Shell) -> None:
    """No vector, an unknown collection: one message each, and exit code 1."""
    shell.run("init")

    assert "no collection 'none'" in shell.run("embed", "x", "--collection", "none", code=1).stderr
    refused = shell.run("embed", "x", code=1, EMBEDQ_FAKE_FAULTS="refused=9")
    assert "no vector: " in refused.stderr
    assert refused.stdout == ""
