"""What must hold under concurrency."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta

from embedq.embedding import Spending
from embedq.model import Budget, JobFilter, JobId, JobStatus, Lease, Outcome, RecordId
from embedq.ports import Store
from embedq.testing.stores.stage import (
    LATE,
    LEASE,
    MINUTE,
    NOON,
    NOTES,
    Stage,
    done,
    embed_all,
    failed,
    has_vector_of,
    retry,
    space_of,
    take,
    write,
    write_many,
)


class RaceFacts(Stage):
    """Real concurrency: one database opened several times, many tasks on each."""

    async def test_twenty_workers_lease_five_hundred_jobs_once_each(self, store: Store, other: Store) -> None:
        """No job is leased twice, and nothing is left over."""
        await write_many(store, 500)
        leased: Counter[JobId] = Counter()

        async def work(number: int) -> None:
            mine = store if number % 2 else other
            while leases := await take(mine, f"w{number}", limit=7):
                leased.update(lease.job_id for lease in leases)
                await mine.settle([done(lease) for lease in leases], now=NOON)

        await asyncio.gather(*(work(number) for number in range(20)))

        assert len(leased) == 500
        assert set(leased.values()) == {1}
        counts = (await store.counts())[NOTES]
        assert (counts.completed, counts.pending, counts.processing, counts.missing) == (500, 0, 0, 0)

    async def test_rescue_against_a_renewing_owner(self, store: Store, other: Store) -> None:
        """Either the lease is renewed and nothing is rescued, or it is rescued and the renewal is refused."""
        for round_ in range(20):
            await write(store, f"text {round_}")
            [lease] = await take(store)
            renewed, rescued = await asyncio.gather(store.renew([lease], span=LEASE, now=LATE), other.rescue(now=LATE))
            assert bool(renewed) != bool(rescued)
            await store.settle([done(lease)], now=LATE)

    async def test_edits_while_jobs_run_are_never_lost(self, store: Store, other: Store) -> None:
        """Three editors and three workers: in the end every vector is its record's last text."""
        texts: dict[str, str] = {}

        async def edit(editor: int) -> None:
            for step in range(40):
                name = f"{editor}-{step % 4}"
                texts[name] = f"{name} {step}"
                await write(store if step % 2 else other, texts[name], name)

        async def work(number: int) -> None:
            mine = other if number % 2 else store
            for _ in range(40):
                leases = await take(mine, f"w{number}", limit=3)
                await asyncio.sleep(0)
                await mine.settle([done(lease) for lease in leases], now=NOON)

        await asyncio.gather(*(edit(n) for n in range(3)), *(work(n) for n in range(3)))
        await embed_all(store)

        assert all([await has_vector_of(store, text, name) for name, text in texts.items()])

    async def test_deletes_and_cancels_while_jobs_run(self, store: Store, other: Store) -> None:
        """Deleted records have no vector, cancelled jobs stay cancelled, and every job is somewhere."""
        receipts = await write_many(store, 120)
        ids = [receipt.id for receipt in receipts]

        async def work(number: int) -> None:
            while leases := await take(other if number % 2 else store, f"w{number}", limit=5):
                await store.settle([done(lease) for lease in leases], now=NOON)

        async def delete() -> None:
            for id_ in ids[::3]:
                await store.delete(NOTES, [id_], now=NOON)

        async def cancel() -> None:
            for receipt in receipts[1::3]:
                assert receipt.job_id
                await other.cancel(receipt.job_id, now=NOON)

        await asyncio.gather(work(0), work(1), work(2), delete(), cancel())

        counts = (await store.counts())[NOTES]
        assert counts.completed + counts.cancelled == 120
        assert counts.records == 80
        assert counts.pending == counts.processing == 0
        assert {record.id for record in await store.get(NOTES, ids)} == set(ids) - set(ids[::3])

    async def test_counts_add_up(self, store: Store, other: Store) -> None:
        """Whatever happens, the sums are what a scan of the jobs finds."""
        await write_many(store, 60)

        async def change(which: Store, seed: int, at: datetime) -> None:
            for step in range(12):
                leases = await take(which, f"w{seed}", at=at, limit=4)
                ends = [_end(lease, step + n + seed) for n, lease in enumerate(leases)]
                await which.settle(ends, now=at)
                await write(which, f"new {step}", f"r{step * seed % 60}", at=at)
                await which.delete(NOTES, [RecordId(f"r{(step * 7 + seed) % 60}")], now=at)

        await asyncio.gather(change(store, 1, NOON), change(other, 2, NOON), change(store, 3, NOON))
        await take(store, "holder", limit=3)

        counts = (await store.counts())[NOTES]
        found = Counter(job.status for job in (await store.jobs(JobFilter(), limit=1000)).items)
        pending = found[JobStatus.PENDING] + found[JobStatus.RETRYING]
        assert (counts.pending, counts.processing) == (pending, found[JobStatus.PROCESSING])
        assert (counts.completed, counts.failed) == (found[JobStatus.COMPLETED], found[JobStatus.FAILED])
        assert counts.cancelled == found[JobStatus.CANCELLED]
        records = (await store.records(NOTES, limit=1000)).items
        missing = await store.missing(NOTES, limit=1000)
        assert (counts.records, counts.missing) == (len(records), len(missing))

    async def test_the_budget_holds_for_all_who_ask_at_once(self, store: Store, other: Store) -> None:
        """Forty calls from two processes at once: as many may go as the budget says, and no more."""
        space, budget = await space_of(store), Budget(requests=5, interval=MINUTE)
        for round_ in range(10):
            at = NOON + round_ * 2 * MINUTE
            asked = [which.take(space, budget, now=at) for which in (store, other) * 20]

            waits = await asyncio.gather(*asked)

            assert waits.count(timedelta(0)) == 5

    async def test_neither_bound_is_exceeded_by_all_who_ask_at_once(self, store: Store, other: Store) -> None:
        """Calls of one to seven tokens from two processes: no more requests and tokens go than both limits allow."""
        space, budget = await space_of(store), Budget(requests=8, tokens=25, interval=MINUTE)
        for round_ in range(10):
            at = NOON + round_ * 2 * MINUTE
            sizes = [1 + (number * 3 + round_) % 7 for number in range(20)]
            asked = [
                which.take(space, budget, Spending(tokens=size), now=at)
                for which, size in zip((store, other) * 10, sizes, strict=True)
            ]

            waits = await asyncio.gather(*asked)

            gone = [size for size, wait in zip(sizes, waits, strict=True) if not wait]
            assert len(gone) <= 8
            assert sum(gone) <= 25
            assert len(gone) == 8 or sum(gone) > 25 - max(sizes)

    async def test_an_edit_that_commits_beside_a_lease(self, store: Store, other: Store) -> None:
        """The lease never carries one text with another's hash."""
        for round_ in range(30):
            await write(store, f"before {round_}")
            (leases, _) = await asyncio.gather(take(store), write(other, f"after {round_}"))
            for lease in leases:
                await store.settle([done(lease)], now=NOON)
            await embed_all(store)
            assert await has_vector_of(store, f"after {round_}")


def _end(lease: Lease, turn: int) -> Outcome:
    """End attempts in turns: successfully, with a retry, with a permanent failure."""
    return (done(lease), retry(lease), failed(lease))[turn % 3]
