"""The example `rules`, prepared and attached once; each test works on a copy of that database."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.seed_002.rules import ATTACH, Rules

from embedq.testing.postgres.address import PostgresAddress


@pytest.fixture(scope="session")
def attached_database(postgres18: PostgresAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the example as far as its README goes before workers start: nine rules, attached."""
    name = f"rules_{uuid4().hex}"
    place = Place(tmp_path_factory.mktemp("rules"), postgres18.create_database(name))
    rules = Rules(place)
    rules.example()
    rules.embedq(*ATTACH)
    yield name
    place.close()
    postgres18.drop_database(name)


@pytest.fixture
def postgres_template(attached_database: str) -> str:
    return attached_database


@pytest.fixture
def place(tmp_path: Path, postgres_url: str) -> Iterator[Place]:
    made = Place(tmp_path, postgres_url)
    yield made
    made.close()


@pytest.fixture
def rules(place: Place) -> Rules:
    return Rules(place)
