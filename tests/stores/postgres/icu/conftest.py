"""A server with ICU, and databases that have the schema, collations that hide edits, and citext."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.stores.postgres.icu import tree

from embedq.stores.postgres.address import parse
from embedq.stores.postgres.schema import install
from embedq.testing.postgres import PostgresAddress, PostgresUnavailable
from embedq.testing.postgres.fixtures import join, unavailable

# Collations that call texts equal: of any case, with any accents too, and with any punctuation.
COLLATIONS = """
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION any_accent (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
CREATE COLLATION any_mark (provider = icu, locale = 'und-u-ka-shifted', deterministic = false);
CREATE COLLATION german (provider = icu, locale = 'de');
CREATE EXTENSION citext
"""


@pytest.fixture(scope="session")
def postgres_icu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresAddress:
    """Where PostgreSQL 18 with ICU answers; not to be stopped or killed by a test."""
    try:
        return join(request, tmp_path_factory, tree.VERSION, binaries=tree.find())
    except PostgresUnavailable as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def icu_template(postgres_icu: PostgresAddress) -> Iterator[str]:
    """Make a database that tests get copies of."""
    name = f"installed_{uuid4().hex}"
    asyncio.run(install(parse(postgres_icu.create_database(name))))
    postgres_icu.query(COLLATIONS, database=name)
    yield name
    postgres_icu.drop_database(name)


@pytest.fixture
def postgres_server(postgres_icu: PostgresAddress) -> PostgresAddress:
    """Ask for the server with ICU."""
    return postgres_icu


@pytest.fixture
def postgres_template(icu_template: str) -> str:
    """Copy the database that is set up."""
    return icu_template
