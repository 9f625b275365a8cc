"""Whose records and jobs are listed: a tenant sees its own, page by page, in every list that there is."""

from embedq.model import JobFilter, JobStatus, NewRecord, Record, RecordId
from embedq.ports import Store
from embedq.testing.stores.stage import HOUR, NOON, NOTES, Stage, done, failed, retry, take

OURS, THEIRS = "ours", "theirs"


async def fill(store: Store) -> None:
    """Put records of two tenants and of nobody, of every status each: embedded, failed, retrying, waiting in line."""
    for number in range(12):
        tenant = (OURS, THEIRS, None)[number % 3]
        record = NewRecord(id=RecordId(f"r{number:02}"), text=f"text {number}", tenant=tenant)
        await store.put(NOTES, [record], now=NOON)
    leases = await take(store, limit=9)
    outcomes = [done(lease) for lease in leases[:3]] + [failed(lease) for lease in leases[3:6]]
    await store.settle([*outcomes, *(retry(lease, after=HOUR) for lease in leases[6:])], now=NOON)


class TenantFacts(Stage):
    """What a tenant is shown."""

    async def test_records_are_listed_by_tenant(self, store: Store) -> None:
        """Of every embedding status a tenant's own records are listed, all of them, and nobody else's."""
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
        """Of every status a tenant's own jobs are listed, each with its tenant, and nobody else's."""
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
