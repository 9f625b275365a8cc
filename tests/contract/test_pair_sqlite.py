"""SQLite is a corpus alone and a queue alone: two files keep every promise of the conformance suite together."""

from pathlib import Path

from embedq.stores.sqlite import SqliteJobStore
from embedq.testing.stores import JobStoreSuite


class TestSqlitePair(JobStoreSuite):
    """The whole suite on two files: beside the corpus that the suite brings, a queue."""

    async def open_queue(self, place: Path) -> SqliteJobStore:
        """Open the queue's file."""
        return await SqliteJobStore.open(place / "queue.db")
