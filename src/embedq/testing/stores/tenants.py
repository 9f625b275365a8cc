"""Which records and jobs are listed and acted on: a tenant sees its own, page by page, and changes no others."""

import asyncio

import pytest

from embedq.errors import NotFound
from embedq.model import EmbeddingStatus, JobFilter, JobId, JobStatus, NewRecord, Record, RecordId
from embedq.ports import Store
from embedq.testing.stores.stage import HOUR, NOON, NOTES, Stage, done, failed, read, retry, take

OURS, THEIRS = "ours", "theirs"
NAME = RecordId("a")
ROUNDS = 40  # of a race


async def change_hands(store: Store) -> JobId:
    """Purge a record of ours, and put its id again as another tenant; return the job, which is theirs now."""
    await store.delete(NOTES, [NAME], purge=True, now=NOON)
    [receipt] = await store.put(NOTES, [NewRecord(id=NAME, text="theirs", tenant=THEIRS)], now=NOON)
    assert receipt.job_id is not None
    return receipt.job_id


async def fill(store: Store) -> None:
    """Put records of two tenants and of none, of every status each: embedded, failed, retrying, queued."""
    for number in range(12):
        tenant = (OURS, THEIRS, None)[number % 3]
        record = NewRecord(id=RecordId(f"r{number:02}"), text=f"text {number}", tenant=tenant)
        await store.put(NOTES, [record], now=NOON)
    leases = await take(store, limit=9)
    outcomes = [done(lease) for lease in leases[:3]] + [failed(lease) for lease in leases[3:6]]
    await store.settle([*outcomes, *(retry(lease, after=HOUR) for lease in leases[6:])], now=NOON)


class TenantFacts(Stage):
    """What a tenant can see and change."""

    async def test_records_are_listed_by_tenant(self, store: Store) -> None:
        """Of every embedding status a tenant's own records are listed, all of them, and no others."""
        await fill(store)
        expected = {None: 4, "embedded": 1, "failed": 1, "pending": 2}

        for status, count in expected.items():
            seen: list[Record] = []
            cursor = None
            while True:
                page = await store.records(NOTES, status=status, tenant=OURS, limit=1, cursor=cursor)
                seen += page.items
                cursor = page.next_cursor
                if cursor is None:
                    break

            assert {record.tenant for record in seen} == {OURS}
            assert (len(seen), len({record.id for record in seen})) == (count, count)
        assert (await store.records(NOTES, tenant="nobody")).items == []

    async def test_jobs_are_listed_by_tenant(self, store: Store) -> None:
        """Of every status a tenant's own jobs are listed, each with its tenant, and no others."""
        await fill(store)
        await take(store, limit=1)
        statuses = (None, *JobStatus)

        for status in statuses:
            every = [job for job in await self._all(store, JobFilter(status=status)) if job[1] == OURS]
            assert await self._all(store, JobFilter(status=status, tenant=OURS)) == every
            assert await self._all(store, JobFilter(status=status, tenant=OURS, collection=NOTES)) == every
        assert len(await self._all(store, JobFilter(tenant=OURS))) == 4
        assert await self._all(store, JobFilter(tenant="nobody")) == []

    async def _all(self, store: Store, which: JobFilter) -> list[tuple[str, str | None]]:
        seen: list[tuple[str, str | None]] = []
        cursor = None
        while True:
            page = await store.jobs(which, limit=1, cursor=cursor)
            seen += [(job.id, job.tenant) for job in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return seen

    async def test_dead_letters_are_counted_and_revived_by_tenant(self, store: Store) -> None:
        """Causes are counted over a tenant's own dead letters, and only those are armed again."""
        await fill(store)

        [group] = await store.dead_stats(tenant=OURS)
        revived = await store.revive(JobFilter(status=JobStatus.FAILED, tenant=OURS), now=NOON)

        assert (group["count"], revived) == (1, 1)
        assert await store.dead_stats(tenant=OURS) == []
        left = (await store.jobs(JobFilter(status=JobStatus.FAILED))).items
        assert {job.tenant for job in left} == {THEIRS, None}
        assert await store.revive(JobFilter(status=JobStatus.FAILED, tenant="nobody"), now=NOON) == 0

    async def test_a_delete_leaves_what_is_anothers_by_now(self, store: Store) -> None:
        """The tenant is compared where the record is deleted, softly or permanently."""
        await store.put(NOTES, [NewRecord(id=NAME, text="ours", tenant=OURS)], now=NOON)
        await change_hands(store)

        for purge in (False, True):
            assert await store.delete(NOTES, [NAME], purge=purge, tenant=OURS, now=NOON) == []
        assert (await read(store)).text == "theirs"
        assert await store.delete(NOTES, [NAME], tenant=THEIRS, now=NOON) == [NAME]

    async def test_an_enqueue_leaves_what_is_anothers_by_now(self, store: Store) -> None:
        """It answers as if the record did not exist, and arms nothing."""
        await store.put(NOTES, [NewRecord(id=NAME, text="ours", tenant=OURS)], now=NOON)
        await change_hands(store)
        [lease] = await take(store)
        await store.settle([done(lease)], now=NOON)

        with pytest.raises(NotFound):
            await store.enqueue(NOTES, [NAME], force=True, tenant=OURS, now=NOON)
        assert await take(store) == []
        [receipt] = await store.enqueue(NOTES, [NAME], force=True, tenant=THEIRS, now=NOON)
        assert (receipt.embedding_status, len(await take(store))) == (EmbeddingStatus.EMBEDDED, 1)

    async def test_a_cancel_leaves_what_is_anothers_by_now(self, store: Store) -> None:
        """A job keeps its id when its record changes its tenant: for the former tenant it does not exist."""
        [ours] = await store.put(NOTES, [NewRecord(id=NAME, text="ours", tenant=OURS)], now=NOON)
        job = await change_hands(store)
        assert job == ours.job_id

        assert await store.cancel(job, tenant=OURS, now=NOON) is None
        assert len(await take(store)) == 1
        cancelled = await store.cancel(job, tenant=THEIRS, now=NOON)
        assert cancelled is not None
        assert cancelled.status is JobStatus.CANCELLED

    async def test_a_revival_leaves_what_is_anothers_by_now(self, store: Store) -> None:
        """A job given by id is armed again only for its record's tenant."""
        await store.put(NOTES, [NewRecord(id=NAME, text="ours", tenant=OURS)], now=NOON)
        job = await change_hands(store)
        [lease] = await take(store)
        await store.settle([failed(lease)], now=NOON)

        assert await store.revive(JobFilter(tenant=OURS), job=job, now=NOON) == 0
        assert await store.revive(JobFilter(tenant=THEIRS), job=job, now=NOON) == 1

    async def test_a_tenant_never_changes_anothers_record(self, store: Store, other: Store) -> None:
        """While a record changes its tenant the former one deletes it and cancels its job: in no order is it lost."""
        for _ in range(ROUNDS):
            [ours] = await store.put(NOTES, [NewRecord(id=NAME, text="ours", tenant=OURS)])
            assert ours.job_id is not None
            job, _, _ = await asyncio.gather(
                change_hands(other),
                store.delete(NOTES, [NAME], tenant=OURS),
                store.cancel(ours.job_id, tenant=OURS),
            )

            if not self.one_database:  # a deletion may reach the queue after the put that followed it
                await store.reconcile(NOTES, [NAME])
            found = await store.job(job)
            assert found is not None
            assert ((await read(store)).text, found.status) == ("theirs", JobStatus.PENDING)
            await store.delete(NOTES, [NAME], purge=True)
