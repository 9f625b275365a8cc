"""What every PostgreSQL store does beside its data: make its roles, check its version, close."""

from embedq.stores.postgres import rights
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.schema import check_version


class PostgresLifetime:
    """The lifetime of a store on an open database."""

    _database: Database

    async def make_roles(self) -> dict[str, list[str]]:
        """Create roles for readers, writers and workers, and grant their rights; safe to repeat."""
        return await rights.make_roles(self._database.address)

    async def check(self) -> None:
        """See `ports.Lifetime`."""
        await self._database.run(lambda db: check_version(db, self._database.address), repeat=True)

    async def close(self) -> None:
        """See `ports.Lifetime`."""
        await self._database.close()
