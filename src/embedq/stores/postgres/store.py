"""PostgreSQL as corpus and queue."""

from typing import Self

from embedq.policy.texts import Limits
from embedq.stores.postgres import build_memory, index
from embedq.stores.postgres.address import parse
from embedq.stores.postgres.attaching.attached_tables import PostgresAttaching
from embedq.stores.postgres.corpus import PostgresCorpus
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.holding import Holds, open_as
from embedq.stores.postgres.jobs import PostgresWork
from embedq.stores.postgres.lifetime import PostgresLifetime
from embedq.stores.postgres.placing import PostgresPlaces
from embedq.stores.postgres.upkeep import PostgresUpkeep
from embedq.telemetry import Telemetry


class PostgresStore(PostgresAttaching, PostgresCorpus, PostgresWork, PostgresPlaces, PostgresUpkeep, PostgresLifetime):
    """One database that is both corpus and queue: record and job, vector and settlement share a transaction."""

    def __init__(self, database: Database, limits: Limits, indexes: index.Indexes) -> None:
        """Use an open database; `open` is the usual way."""
        PostgresCorpus.__init__(self, database, limits)
        PostgresWork.__init__(self, database)
        PostgresPlaces.__init__(self, database)
        PostgresUpkeep.__init__(self, database, limits, indexes)
        PostgresAttaching.__init__(self, database, limits)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        telemetry: Telemetry | None = None,
        limits: Limits | None = None,
        index_from: int = index.WORTH,
        index_memory_mb: int = build_memory.MEMORY_MB,
        pooler: bool = False,
        make: bool = True,
    ) -> Self:
        """Open the database, and install or upgrade its schema; without `make` it is only checked.

        Args:
            url: Where it is.
            telemetry: Where events are sent.
            limits: The limits of a record.
            index_from: How many vectors of a space are worth an index.
            index_memory_mb: How much memory the server may use to build one.
            pooler: A transaction pooler is in between.
            make: Install or upgrade the schema; without it a database that lacks it is refused.
        """
        address = parse(url, pooler=pooler)
        await open_as(Holds.BOTH, address, make=make)
        database = Database(address, telemetry or Telemetry())
        return cls(database, limits or Limits(), index.Indexes(database, index_from, index_memory_mb))

    async def close(self) -> None:
        """See `ports.Lifetime`."""
        await self.stop_gathering()
        await super().close()
