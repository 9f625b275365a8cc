"""A database of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.processes import Place


@pytest.fixture
def postgres_template(installed: str) -> str:
    """Copy a database that has the schema."""
    return installed


@pytest.fixture
def place(tmp_path: Path, postgres_url: str) -> Iterator[Place]:
    made = Place(tmp_path, postgres_url)
    yield made
    made.close()
