"""The operator's and the upkeep's side of the queue."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from embedq.model import Counts, Job, JobFilter, JobId, JobStatus, Missing, Page, Reason, RecordId, Rescued, WorkerId
from embedq.policy.tenants import owned
from embedq.policy.texts import Limits
from embedq.stores.postgres import collections, index, keeping, listing, rescuing
from embedq.stores.postgres.database import Database

STEP = 1000


class PostgresJobs:
    """Rescue and the operator's look-ups in one PostgreSQL database, wherever the jobs' records are."""

    def __init__(self, database: Database) -> None:
        """Use an open database."""
        self._database = database
        self._purged_to = 0  # the key after which the purge continues

    async def rescue(
        self,
        *,
        dead: Sequence[WorkerId] = (),
        unrenewed_for: timedelta | None = None,
        now: datetime | None = None,
    ) -> Sequence[Rescued]:
        """See `ports.Keeping`."""
        rescued = await rescuing.rescue(self._database, dead, unrenewed_for, now)
        self._wake(len(rescued))
        for found in rescued:
            if found.status is JobStatus.FAILED:
                self._database.report_dead(found.job_id, Reason.CRASH_LOOP)
        return rescued

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        row = await self._database.fetchrow(keeping.PURGE_JOBS, now, older_than, self._purged_to, limit)
        self._purged_to = row["last"] if row["removed"] == limit else 0
        return int(row["removed"]) + int(await self._database.call(keeping.PURGE_REST, now, older_than, limit))

    async def counts(self) -> Mapping[str, Counts]:
        """See `ports.Operating`."""
        return await self._database.run(listing.counts, repeat=True)

    async def jobs(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """See `ports.Operating`."""
        return await self._database.run(lambda db: listing.jobs(db, which, limit, cursor), repeat=True)

    async def job(self, job: JobId) -> Job | None:
        """See `ports.Operating`."""
        return await self._database.run(lambda db: listing.job(db, job), repeat=True)

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """See `ports.Operating`."""
        return await self._database.run(lambda db: listing.dead_stats(db, tenant), repeat=True)

    async def oldest_pending(self, *, now: datetime | None = None) -> Mapping[str, timedelta]:
        """See `ports.Operating`."""
        return await self._database.run(lambda db: listing.oldest_pending(db, now), repeat=True)

    def _wake(self, ready: int) -> int:
        """Notify workers if jobs became ready."""
        if ready:
            self._database.woke()
        return ready


class PostgresUpkeep(PostgresJobs):
    """Reconcile, and operators' actions on jobs whose records are in the same database."""

    def __init__(self, database: Database, limits: Limits, indexes: index.Indexes) -> None:
        """Use an open database."""
        PostgresJobs.__init__(self, database)
        self._limits = limits
        self._indexes = indexes

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Missing]:
        """See `ports.Keeping`."""
        return await self._database.run(lambda db: keeping.missing(db, collection, after, limit), repeat=True)

    async def reconcile(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        armed = await self._database.write(lambda db: keeping.reconcile(db, collection, records, now), repeat=True)
        return self._wake(armed)

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        done = await keeping.remove_dropped(self._database, limit, now)
        done = done or await collections.recompose(self._database, limit, self._limits, now)
        done = done or await self._indexes.build_one()
        return done or await collections.index_words(self._database, limit)

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        armed = await self._database.write(lambda db: keeping.replayed_quota(db, older_than, STEP, now), repeat=True)
        return self._wake(len(armed))

    async def cancel(self, job: JobId, *, tenant: str | None = None, now: datetime | None = None) -> Job | None:
        """See `ports.Operating`."""
        await self._database.write(lambda db: keeping.cancel(db, job, tenant, now), repeat=True)
        return owned(await self.job(job), tenant)

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> int:
        """See `ports.Operating`."""
        armed = await self._database.write(lambda db: keeping.revived(db, which, job, limit, now), repeat=True)
        return self._wake(len(armed))
