"""The wheel, installed with each extra alone: all of them in `make test-install`, what matters most in `make test`."""

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from tests.install.environments import CORE, EVERY, EXTRAS, LOCAL, Environment, built, installed, pythons

# By the test's file: which extras it is for, and which of them `make test` tries.
TRIED = {
    "test_requirements": (EXTRAS, (CORE, LOCAL)),
    "test_extras": (EXTRAS, (CORE,)),
    "test_pages": ((LOCAL,), (LOCAL,)),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test in the environments that it is for."""
    if "environment" in metafunc.fixturenames:
        every, some = TRIED[Path(metafunc.definition.path).stem]
        given = [(python, extra) for python in pythons() for extra in (every if EVERY else some)]
        names = [f"{Path(python).name}-{extra or 'core'}" for python, extra in given]
        metafunc.parametrize("environment", given, ids=names, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give an installation time: on a busy machine pip takes minutes."""
    for item in items:
        if "environment" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    shared = tmp_path_factory.getbasetemp()
    return built((shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "wheel")


@pytest.fixture(scope="session")
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path
) -> Iterator[Environment]:
    """An environment with one extra, or none."""
    python, extra = request.param
    place = tmp_path_factory.mktemp("install")
    yield installed(place, wheel, python, extra)
    rmtree(place)  # some hundred MB
