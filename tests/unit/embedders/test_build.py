import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest

from embedq.embedders import build, canonical, known_dimensions
from embedq.errors import SettingsError
from embedq.model import EmbedderName


def named(provider: str, model: str = "", dimensions: int | None = None) -> EmbedderName:
    return EmbedderName(provider=provider, model=model, dimensions=dimensions)


@pytest.mark.parametrize("provider", ["ollama", "gemini"])
def test_later_providers_are_refused_by_name(provider: str) -> None:
    """A provider of a later version is refused with that reason."""
    with pytest.raises(SettingsError, match="not in this version yet"):
        build(named(provider, "model"), environment={})


def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    """The refusal lists what there is."""
    with pytest.raises(SettingsError, match="local, openai, fake"):
        build(named("nothing"), environment={})


@pytest.mark.parametrize(("provider", "module"), [("openai", "openai"), ("local", "onnxruntime")])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, provider: str, module: str) -> None:
    """Without a provider's library the refusal says what to install."""
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == module else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)

    with pytest.raises(SettingsError, match=rf"pip install 'embedq\[{provider}\]'"):
        build(named(provider, "model"), environment={})


def test_no_provider_is_imported_before_it_is_asked_for() -> None:
    """Reading all declarations, and building the fake embedder, loads no provider's library."""
    program = (
        "import sys; from embedq.embedders import build, variables; from embedq.model import EmbedderName;"
        "variables(); build(EmbedderName(provider='fake', model=''), environment={});"
        "print([name for name in ('openai', 'onnxruntime', 'onnx', 'tokenizers') if name in sys.modules])"
    )

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (named("local"), 384),
        (named("fake"), 384),
        (named("fake", dimensions=8), 8),
        (named("openai", "text-embedding-3-small"), 1536),
        (named("openai", "text-embedding-3-large"), 3072),
        (named("openai", "text-embedding-3-large", 256), 256),
        (named("openai", "text-embedding-ada-002"), 1536),
        (named("openai", "house-model"), None),
        (named("ollama", "nomic-embed-text"), None),
    ],
)
def test_dimensions_are_known_by_name(name: EmbedderName, expected: int | None) -> None:
    """What a name tells about the vectors' length is told without loading anything."""
    assert known_dimensions(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (named("local"), "local:all-MiniLM-L6-v2"),
        (named("local", "", 384), "local:all-MiniLM-L6-v2"),
        (named("fake"), "fake"),
        (named("fake", "", 384), "fake"),
        (named("fake", "", 8), "fake@8"),
        (named("openai", "text-embedding-3-small", 512), "openai:text-embedding-3-small@512"),
    ],
)
def test_two_ways_of_saying_it_are_one_name(name: EmbedderName, expected: str) -> None:
    """A name is stored one way, so that equal embedders share a space."""
    assert str(canonical(name)) == expected


@pytest.mark.parametrize("name", [named("local", "other-model"), named("local", "", 768), named("fake", "", 0)])
def test_what_an_embedder_cannot_be_is_refused(name: EmbedderName) -> None:
    """The local embedder has one model of 384 dimensions; the fake one at least one dimension."""
    with pytest.raises(SettingsError):
        build(name, environment={})
