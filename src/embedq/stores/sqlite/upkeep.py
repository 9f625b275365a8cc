"""The operator's part and the upkeep of the queue."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from embedq.model import Counts, Job, JobFilter, JobId, Missing, Page, RecordId, Rescued, WorkerId
from embedq.policy.tenants import owned
from embedq.stores.sqlite import collections, deleting, keeping, listing, rescuing
from embedq.stores.sqlite.file import File
from embedq.stores.sqlite.moments import clock, span, stamp
from embedq.stores.sqlite.transaction import Transaction

STEP = 1000


class SqliteJobs:
    """Rescue and the operator's lookups in one SQLite file, wherever the jobs' records are stored."""

    def __init__(self, file: File) -> None:
        """Use an open file."""
        self._file = file

    async def rescue(
        self,
        *,
        dead: Sequence[WorkerId] = (),
        unrenewed_for: timedelta | None = None,
        now: datetime | None = None,
    ) -> Sequence[Rescued]:
        """See `ports.Keeping`."""
        return await self._file.write(lambda tx: rescuing.rescue(tx, dead, unrenewed_for, stamp(now, tx.now)))

    async def counts(self) -> Mapping[str, Counts]:
        """See `ports.Operating`."""
        return await self._file.read(listing.counts)

    async def jobs(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """See `ports.Operating`."""
        return await self._file.read(lambda db: listing.jobs(db, which, limit, cursor))

    async def job(self, job: JobId) -> Job | None:
        """See `ports.Operating`."""
        return await self._file.read(lambda db: listing.job(db, job))

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """See `ports.Operating`."""
        return await self._file.read(lambda db: listing.dead_stats(db, tenant))

    async def oldest_pending(self, *, now: datetime | None = None) -> Mapping[str, timedelta]:
        """See `ports.Operating`."""
        return await self._file.read(lambda db: listing.oldest_pending(db, stamp(now, clock())))

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        before = stamp(now, clock()) - span(older_than)
        jobs = await self._file.read(lambda db: keeping.old_jobs(db, before, limit))
        return await self._file.write(lambda tx: keeping.purge(tx, jobs, before, limit), bulk=True)


class SqliteUpkeep(SqliteJobs):
    """Purge, reconcile and operator actions on jobs whose records are in the same file."""

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Missing]:
        """See `ports.Keeping`."""
        return await self._file.read(lambda db: keeping.missing(db, collection, after, limit))

    async def reconcile(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        return await self._file.write(
            lambda tx: keeping.reconcile(tx, collection, records, stamp(now, tx.now)), bulk=True
        )

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""

        def work(tx: Transaction) -> int:
            moment = stamp(now, tx.now)
            return (
                deleting.remove_dropped(tx, limit, moment)
                or collections.recompose(tx, limit, moment)
                or collections.fill_words(tx, limit)
            )

        return await self._file.write(work, bulk=True)

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        return await self._file.write(
            lambda tx: keeping.replay_quota(tx, older_than, STEP, stamp(now, tx.now)), bulk=True
        )

    async def cancel(self, job: JobId, *, tenant: str | None = None, now: datetime | None = None) -> Job | None:
        """See `ports.Operating`."""
        if await self.job(job) is None:
            return None
        await self._file.write(lambda tx: keeping.cancel(tx, job, tenant, stamp(now, tx.now)))
        return owned(await self.job(job), tenant)

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> int:
        """See `ports.Operating`."""
        if job is not None and await self.job(job) is None:
            return 0
        return await self._file.write(lambda tx: keeping.revive(tx, which, job, limit, stamp(now, tx.now)))
