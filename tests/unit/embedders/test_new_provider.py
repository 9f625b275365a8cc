"""A provider is added by its file and one row: settings, refusals, log and workers know it by its declaration."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.embedders import loom

from embedq import embedders
from embedq.app import environment, load, start, table
from embedq.embedding import EmbedderLimits, Purpose
from embedq.errors import SettingsError
from embedq.model import EmbedderName
from embedq.policy.naming import parse_embedder
from embedq.telemetry import Event, Facts

SECRET, PASSWORD = "loom-key-that-nobody-sees", "pass-that-nobody-sees"
ADDRESS = f"http://ada:{PASSWORD}@127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(embedders.PROVIDERS, "loom", loom.__name__)
    monkeypatch.chdir(tmp_path)
    for name in (loom.KEY, loom.BASE_URL, "EMBEDQ_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_its_variables_are_settings() -> None:
    """They stand in the reference, are taken from the file, and reach the embedder as variables."""
    Path("embedq.toml").write_text(f'loom_api_key = "{SECRET}"\nLOOM_BASE_URL = "{ADDRESS}"\n')

    settings = load()

    assert [(row.key, row.secret) for row in table()][-2:] == [("loom_api_key", True), ("loom_base_url", False)]
    found = environment(settings)
    assert (found[loom.KEY], found[loom.BASE_URL]) == (SECRET, ADDRESS)


def test_its_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key and the password of its address are secrets, and stand in no repr."""
    monkeypatch.setenv(loom.KEY, SECRET)
    monkeypatch.setenv(loom.BASE_URL, ADDRESS)

    settings = load()

    assert {SECRET, PASSWORD} <= set(settings.secrets())
    assert SECRET not in repr(settings)
    assert PASSWORD not in repr(settings)


def test_a_found_file_may_not_choose_where_its_key_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that receives the key is known by the declaration."""
    Path("embedq.toml").write_text('loom_base_url = "http://evil.example/v1"\n')
    monkeypatch.setenv(loom.KEY, SECRET)

    with pytest.raises(SettingsError, match="would send the LOOM_API_KEY of your environment"):
        load()


def test_a_refusal_names_its_variable_and_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key the variable is named; without its library, what to install."""
    name = parse_embedder("loom:jacquard")
    with pytest.raises(SettingsError, match="LOOM_API_KEY is not set"):
        embedders.build(name, environment={})

    needy = replace(loom.PROVIDER, modules=("no_such_library",), extra="loom")
    monkeypatch.setattr(loom, "PROVIDER", needy)
    with pytest.raises(SettingsError, match=r"needs no_such_library: run pip install 'embedq\[loom\]'"):
        embedders.build(name, environment={})


async def test_it_is_built_by_its_name_and_embeds() -> None:
    """Its default model, dimensions and limits are those declared; its answers are an embedder's."""
    built = embedders.build(parse_embedder("loom"), environment={loom.KEY: SECRET})

    answer = await built.embed(["four", "fifth"], Purpose.QUERY)

    assert str(built.name) == "loom:jacquard"
    assert (built.dimensions, built.limits) == (4, EmbedderLimits(inputs=3, tokens_per_call=30))
    assert answer.vectors[:, 0].tolist() == [4, 5]
    assert embedders.known_dimensions(EmbedderName(provider="loom", model="other")) is None


async def test_it_works_from_the_settings_to_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search is embedded by it, a worker meets its error, and the log tells of it without its secrets."""
    monkeypatch.setenv(loom.KEY, SECRET)
    monkeypatch.setenv(loom.BASE_URL, ADDRESS)
    met = asyncio.Event()

    def listen(event: Event, level: str, facts: Facts) -> None:  # noqa: ARG001 the contract of a handler
        if event is Event.EMBEDDER_BACKOFF:
            met.set()

    async with start(load(url="sqlite:///loom.db", embedder="loom")) as app:
        app.telemetry.add(listen)
        await app.client.put("notes", [{"id": "n1", "text": "warp and weft"}])
        answer = await app.client.search("notes", "weft", mode="semantic")
        async with app.working(1), asyncio.timeout(20):
            await met.wait()

    said = capsys.readouterr().err
    assert not answer.hits
    assert "refused the key [hidden]" in said
    assert SECRET not in said
    assert PASSWORD not in said
