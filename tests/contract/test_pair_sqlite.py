"""A pair of SQLite files, one the corpus and one the queue, keeps every promise of the conformance suite."""

from pathlib import Path
from typing import ClassVar

from embedq.ports import Store
from embedq.stores.pair import PairStore
from embedq.stores.sqlite import SqliteCorpusStore, SqliteJobStore
from embedq.testing.stores import StoreSuite


class TestSqlitePair(StoreSuite):
    """The whole suite, on two files."""

    one_database: ClassVar[bool] = False

    async def open_store(self, place: Path) -> Store:
        """Open both files of this test."""
        corpus = await SqliteCorpusStore.open(place / "corpus.db")
        return await PairStore.join(corpus, await SqliteJobStore.open(place / "queue.db"))
