"""SQLite as corpus and queue."""

import asyncio
from pathlib import Path
from typing import Self

from embedq.errors import StoreUnusable
from embedq.policy.texts import Limits
from embedq.stores.sqlite.connection import file_identity
from embedq.stores.sqlite.corpus import SqliteCorpus
from embedq.stores.sqlite.file import File
from embedq.stores.sqlite.jobs import SqliteQueue
from embedq.stores.sqlite.placing import SqlitePlaces
from embedq.stores.sqlite.upkeep import SqliteUpkeep
from embedq.telemetry import Telemetry


class SqliteStore(SqliteCorpus, SqliteQueue, SqlitePlaces, SqliteUpkeep):
    """One file that is both corpus and queue, so that record and job, vector and settlement share a transaction."""

    def __init__(self, file: File, limits: Limits) -> None:
        """Speak through an opened file; `open` is the usual way."""
        SqliteCorpus.__init__(self, file, limits)
        SqliteQueue.__init__(self, file)
        SqlitePlaces.__init__(self, file)
        SqliteUpkeep.__init__(self, file)

    @classmethod
    async def open(cls, path: Path, *, telemetry: Telemetry | None = None, limits: Limits | None = None) -> Self:
        """Open or create the file."""
        file = await asyncio.to_thread(lambda: File(path.absolute(), telemetry or Telemetry()))
        return cls(file, limits or Limits())

    async def check(self) -> None:
        """See `ports.Store`."""
        identity = file_identity(self._file.path)
        found = await self._file.read(lambda db: db.execute("SELECT count(*) FROM embedq_control").fetchone())
        if not found or identity != file_identity(self._file.path):
            raise StoreUnusable(f"{self._file.path} was replaced by another file: restart")

    async def close(self) -> None:
        """See `ports.Store`."""
        await self._file.close()
