"""The client without asyncio is the async one: nothing is missing, nothing differs."""

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from embedq.client import Client
from embedq.client.tables import Tables
from embedq.operator import Operator
from embedq.sync import SyncEmbedQ, SyncOperator, SyncTables

ROOT = Path(__file__).parents[2]
PAIRS = [(Client, SyncEmbedQ), (Operator, SyncOperator), (Tables, SyncTables)]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """Load the script that makes it."""
    spec = importlib.util.spec_from_file_location("generate_sync", ROOT / "tools" / "generate_sync.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", ["client.py", "operator.py", "tables.py"])
def test_it_is_what_the_script_makes(generate: ModuleType, file: str) -> None:
    """Making it anew from the async client changes nothing."""
    assert (generate.FOLDER / file).read_text() == generate.made(file), "run .venv/bin/python tools/generate_sync.py"


@pytest.mark.parametrize(("asynchronous", "sync"), PAIRS, ids=lambda noun: noun.__name__)
def test_every_method_waits(asynchronous: type, sync: type) -> None:
    """Each public method is there with the same signature, and is no coroutine."""
    methods = dict(inspect.getmembers(asynchronous, inspect.isfunction))
    public = {name: method for name, method in methods.items() if not name.startswith("_")}

    assert {name for name in public if not hasattr(sync, name)} == set()
    for name, method in public.items():
        made = getattr(sync, name)
        assert inspect.signature(made) == inspect.signature(method), name
        assert not inspect.iscoroutinefunction(made), name
