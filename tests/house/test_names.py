"""What applications may import, and that it is there."""

import importlib
import importlib.metadata
import inspect

import pytest

import embedq
from embedq import model, ports

PUBLIC = {
    "embedq": {"open", "__version__"},
    "embedq.testing.stores": {"StoreSuite", "JobStoreSuite", "CorpusSuite"},
    "embedq.testing.embedder": {"EmbedderSuite"},
    "embedq.testing.postgres": {"PostgresServer"},
    "embedq.stores.postgres": {"PostgresStore"},
    "embedq.stores.sqlite": {"SqliteStore"},
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_there(module: str) -> None:
    """A name that was promised can be imported."""
    found = importlib.import_module(module)

    assert {name for name in PUBLIC[module] if not hasattr(found, name)} == set()


def test_every_public_noun_is_explained() -> None:
    """Each noun and each contract says what it is."""
    nouns = [thing for module in (model, ports) for _, thing in inspect.getmembers(module, inspect.isclass)]
    ours = [thing for thing in nouns if thing.__module__.startswith((model.__name__, ports.__name__))]

    assert [thing.__name__ for thing in ours if not inspect.getdoc(thing)] == []


def test_the_version_is_one() -> None:
    """The package says the version that was installed."""
    assert embedq.__version__ == importlib.metadata.version("embedq")
