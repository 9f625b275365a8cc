"""SQLite as corpus and queue, or as one of the two."""

from embedq.stores.sqlite.halves import SqliteCorpusStore, SqliteJobStore
from embedq.stores.sqlite.store import SqliteStore

__all__ = ["SqliteCorpusStore", "SqliteJobStore", "SqliteStore"]
