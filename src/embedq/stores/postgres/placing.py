"""Every open job is in exactly one place: find those that are not, and repair them."""

from collections.abc import Sequence

from embedq.model import JobId
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import job_id, key_of

MISPLACED = "SELECT job, serial FROM embedq.misplaced(NULL, $1)"
PUT_IN_PLACE = "SELECT embedq.put_in_place($1)"


class PostgresPlaces:
    """The queue positions of jobs in one PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        """Use an open database."""
        self._database = database

    async def misplaced(self, *, limit: int = 1000) -> Sequence[JobId]:
        """See `ports.Placing`."""
        return [job_id(row["job"], row["serial"]) for row in await self._database.fetch(MISPLACED, limit)]

    async def put_in_place(self, jobs: Sequence[JobId]) -> int:
        """See `ports.Placing`."""
        placed = int((await self._database.fetchrow(PUT_IN_PLACE, [key_of(job) for job in jobs]))[0])
        if placed:
            self._database.woke()
        return placed
