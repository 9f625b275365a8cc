"""Upkeep of two databases: records that lack a vector and a job, and operator actions on jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from embedq.exchange import Arm, Cause, JobState, Standing
from embedq.model import Counts, Job, JobFilter, JobId, JobStatus, Missing, Page, RecordId, Rescued, WorkerId
from embedq.policy.jobs import needs_job
from embedq.policy.tenants import belongs, owned
from embedq.ports.halves import RecordName
from embedq.stores.pair.halves import GIVEN_UP, Halves, by_collection


class PairKeeping(Halves):
    """Rescue, reconcile, purge, and the operator's actions."""

    async def rescue(
        self, *, dead: Sequence[WorkerId] = (), unrenewed_for: timedelta | None = None, now: datetime | None = None
    ) -> Sequence[Rescued]:
        """See `ports.Keeping`."""
        rescued = await self._queue.rescue(dead=dead, unrenewed_for=unrenewed_for, now=now)
        lost = [(found.collection, found.record_id) for found in rescued if found.status is JobStatus.FAILED]
        for collection, records in by_collection([name for name in lost if name[0]]).items():
            await self._note_losses(collection, records)
        return rescued

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Missing]:
        """See `ports.Keeping`. Also note on its record what the queue gave up on, where the record lacks that."""
        some = await self._corpus.missing(collection, after=after, limit=limit)
        states = await self._queue.states(collection, [found.id for found in some])
        unnoted = [found.id for found in some if _is_unnoted(found, states.get(found.id))]
        if unnoted:
            await self._note_losses(collection, unnoted)
        return [Missing(key=one.key, id=one.id, needs_job=_needs_job(one, states.get(one.id))) for one in some]

    async def reconcile(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        live = await self._corpus.standing(collection, records)
        arms = [
            Arm(one.id, one.hash, Cause.RECONCILE, tenant=one.tenant, given_up=one.given_up)
            for one in live
            if not one.current
        ]
        queued = await self._enqueue(collection, arms, now)
        return sum(one.armed for one in queued)

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """See `ports.Keeping`."""
        return await self._corpus.recount(collection, after=after, limit=limit)

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        jobs = await self._queue.purge(older_than=older_than, limit=limit, now=now)
        return jobs + await self._corpus.purge(older_than=older_than, limit=limit, now=now)

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        return await self._corpus.finish(limit=limit, now=now) or await self._queue.finish(limit=limit, now=now)

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> int:
        """See `ports.Keeping`."""
        return await self._tried_again(await self._queue.replay_quota(older_than=older_than, now=now))

    async def misplaced(self, *, limit: int = 1000) -> Sequence[JobId]:
        """See `ports.Placing`."""
        return await self._queue.misplaced(limit=limit)

    async def put_in_place(self, jobs: Sequence[JobId]) -> int:
        """See `ports.Placing`."""
        return await self._queue.put_in_place(jobs)

    async def counts(self) -> Mapping[str, Counts]:
        """See `ports.Operating`. The collections are those of the corpus."""
        jobs = await self._queue.counts()
        return {
            name: _counted(jobs.get(name, Counts()), found._asdict())
            for name, found in (await self._corpus.sizes()).items()
        }

    async def jobs(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """See `ports.Operating`."""
        return await self._queue.jobs(which, limit=limit, cursor=cursor)

    async def job(self, job: JobId) -> Job | None:
        """See `ports.Operating`."""
        return await self._queue.job(job)

    async def cancel(self, job: JobId, *, tenant: str | None = None, now: datetime | None = None) -> Job | None:
        """See `ports.Operating`. Cancelled for the text that the corpus has now, not for the one it was armed for."""
        found = owned(await self._queue.job(job), tenant)
        if found is None:
            return None
        live = await self._corpus.standing(found.collection, [found.record_id])
        if live and not belongs(live[0].tenant, tenant):  # the queue has not been told yet
            return None
        cancelled = await self._queue.cancel(job, live[0].hash if live else None, tenant=tenant, now=now)
        await self._note_losses(found.collection, [found.record_id])
        return cancelled

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> int:
        """See `ports.Operating`."""
        return await self._tried_again(await self._queue.revive(which, job=job, limit=limit, now=now))

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """See `ports.Operating`."""
        return await self._queue.dead_stats(tenant=tenant)

    async def oldest_pending(self, *, now: datetime | None = None) -> Mapping[str, timedelta]:
        """See `ports.Operating`."""
        return await self._queue.oldest_pending(now=now)

    async def _tried_again(self, revived: Sequence[RecordName]) -> int:
        """Note on records that their texts are tried again; return how many."""
        for collection, records in by_collection(revived).items():
            await self._corpus.try_again(collection, records)
        return len(revived)


def _needs_job(record: Standing, state: JobState | None) -> bool:
    if state is None:
        return needs_job(None, given_up=record.given_up)
    return needs_job(state.status, reason=state.reason, same_text=state.hash == record.hash)


def _is_unnoted(record: Standing, state: JobState | None) -> bool:
    """Say whether the queue has given up on a record's current text, and the record does not have that noted."""
    if state is None or record.given_up or state.hash != record.hash:
        return False
    return state.status in GIVEN_UP and not _needs_job(record, state)


def _counted(jobs: Counts, sizes: Mapping[str, int]) -> Counts:
    return Counts(
        pending=jobs.pending,
        processing=jobs.processing,
        completed=jobs.completed,
        failed=jobs.failed,
        cancelled=jobs.cancelled,
        **sizes,
    )
