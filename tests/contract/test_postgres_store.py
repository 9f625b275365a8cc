"""PostgreSQL keeps every promise of the conformance suite, on the newest version and on an older one."""

import pytest

from embedq.stores.postgres import PostgresStore
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


class TestPostgres16(OnPostgres):
    """On PostgreSQL 16."""

    @pytest.fixture
    def postgres_version(self) -> int:
        """Ask for the older server."""
        return 16
