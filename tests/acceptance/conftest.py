"""Real processes for every test, ended when it is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.processes import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()
