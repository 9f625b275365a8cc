"""Short reads concurrent with the writer, on separate threads."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from embedq.errors import StoreError
from embedq.stores.sqlite.connection import connect, speaking

T = TypeVar("T")
THREADS = 4


class Readers:
    """A few connections that only read, each on its own thread."""

    def __init__(self, path: Path) -> None:
        """Open no connection until it is needed."""
        self._path = path
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="embedq-reader")
        self._closed = False

    async def run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Read in one snapshot. Callable from any event loop."""
        if self._closed:
            raise StoreError("the store is closed: open it again")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, read)

    def close(self) -> None:
        """Wait for running reads, then close."""
        self._closed = True
        self._pool.shutdown(wait=True)
        for db in self._open:
            db.close()

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        db = self._connection()
        with speaking(self._path):
            db.execute("BEGIN")
            try:
                return read(db)
            finally:
                db.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = connect(self._path, read_only=True)
            self._local.db = db
            self._open.append(db)
        return db
