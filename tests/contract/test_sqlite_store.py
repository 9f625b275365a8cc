"""SQLite keeps every promise of the conformance suite."""

from pathlib import Path

from embedq.stores.sqlite import SqliteStore
from embedq.testing.stores import StoreSuite


class TestSqliteStore(StoreSuite):
    """The whole suite, on a file."""

    async def open_store(self, place: Path) -> SqliteStore:
        """Open the file of this test."""
        return await SqliteStore.open(place / "embedq.db")
