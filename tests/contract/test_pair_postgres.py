"""PostgreSQL is a corpus alone and a queue alone: beside a SQLite file, each keeps every promise of the suite."""

import pytest

from embedq.stores.postgres import PostgresCorpusStore, PostgresJobStore
from embedq.testing.stores import CorpusSuite, JobStoreSuite


class OnPostgres:
    """A half on a PostgreSQL database of its own."""

    @pytest.fixture
    def half(self, postgres_url: str) -> str:
        """Say where the database is."""
        return postgres_url

    @pytest.fixture
    def postgres_template(self, installed: str) -> str:
        """Copy a database that has the schema."""
        return installed


class TestPostgresQueue(OnPostgres, JobStoreSuite):
    """A PostgreSQL queue beside a SQLite corpus."""

    async def open_queue(self, place: str) -> PostgresJobStore:
        """Open the database of this test."""
        return await PostgresJobStore.open(place)


class TestPostgresCorpus(OnPostgres, CorpusSuite):
    """A SQLite queue beside a PostgreSQL corpus."""

    async def open_corpus(self, place: str) -> PostgresCorpusStore:
        """Open the database of this test."""
        return await PostgresCorpusStore.open(place)
