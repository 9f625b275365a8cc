"""SQLite as corpus and queue."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

from embedq.model import Ask, JobId, Outcome, Settled
from embedq.policy.texts import Limits
from embedq.stores.sqlite import settling
from embedq.stores.sqlite.corpus import SqliteCorpus
from embedq.stores.sqlite.file import File
from embedq.stores.sqlite.halves import open_with_records
from embedq.stores.sqlite.jobs import SqliteQueue
from embedq.stores.sqlite.placing import SqlitePlaces
from embedq.stores.sqlite.transaction import Transaction
from embedq.stores.sqlite.upkeep import SqliteUpkeep
from embedq.telemetry import Telemetry


class SqliteStore(SqliteCorpus, SqliteQueue, SqlitePlaces, SqliteUpkeep):
    """One file that is both corpus and queue: record and job, vector and settlement share a transaction."""

    def __init__(self, file: File, limits: Limits) -> None:
        """Use an open file; `open` is the usual way."""
        SqliteCorpus.__init__(self, file, limits)
        SqliteQueue.__init__(self, file)
        SqlitePlaces.__init__(self, file)
        SqliteUpkeep.__init__(self, file)

    @classmethod
    async def open(
        cls, path: Path, *, telemetry: Telemetry | None = None, limits: Limits | None = None, make: bool = True
    ) -> Self:
        """Open the file, and create or upgrade it; without `make` it is only checked."""
        return cls(await open_with_records(path, telemetry or Telemetry(), make=make), limits or Limits())

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, last: bool = False, now: datetime | None = None
    ) -> Settled:
        """See `ports.Leasing`."""
        del last

        def settle(tx: Transaction, moment: int) -> frozenset[JobId]:
            return settling.settle(tx, outcomes, self._given, moment) if outcomes else frozenset()

        return await self._settle_and_lease(settle, then, now)

    async def check(self) -> None:
        """See `ports.Store`."""
        await self._file.check()

    async def close(self) -> None:
        """See `ports.Store`."""
        await self._file.close()
