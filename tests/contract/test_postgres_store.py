"""PostgreSQL keeps every promise of the conformance suite, on the newest version and on an older one."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest

from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.address import parse
from embedq.stores.postgres.schema import install
from embedq.testing.postgres import PostgresAddress
from embedq.testing.stores import StoreSuite


class OnPostgres(StoreSuite):
    """The whole suite; each test has a database of its own, copied from one that is installed already."""

    async def open_store(self, place: str) -> PostgresStore:  # type: ignore[override]  # a place is whatever a store needs
        """Open the database of this test."""
        return await PostgresStore.open(place)

    @pytest.fixture
    def place(self, postgres_url: str) -> str:  # type: ignore[override]  # a place is whatever a store needs
        """Say where the database is."""
        return postgres_url

    @pytest.fixture
    def postgres_template(self, installed: str) -> str:
        """Copy a database that has the schema."""
        return installed


class TestPostgres18(OnPostgres):
    """On PostgreSQL 18."""

    @pytest.fixture
    def installed(self, installed18: str) -> str:
        """Copy the newer server's."""
        return installed18


class TestPostgres16(OnPostgres):
    """On PostgreSQL 16."""

    @pytest.fixture
    def postgres_version(self) -> int:
        """Ask for the older server."""
        return 16

    @pytest.fixture
    def installed(self, installed16: str) -> str:
        """Copy the older server's."""
        return installed16


@pytest.fixture(scope="session")
def installed18(postgres18: PostgresAddress) -> Iterator[str]:
    yield from install_on(postgres18)


@pytest.fixture(scope="session")
def installed16(postgres16: PostgresAddress) -> Iterator[str]:
    yield from install_on(postgres16)


def install_on(server: PostgresAddress) -> Iterator[str]:
    """Make a database with the schema in it."""
    name = f"installed_{uuid4().hex}"
    asyncio.run(install(parse(server.create_database(name))))
    yield name
    server.drop_database(name)
