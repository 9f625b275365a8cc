"""SQLite as corpus and queue: one file, one writer thread per process, FAISS beside it for search."""

from embedq.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
