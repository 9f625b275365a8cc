"""Erasing: what was purged is not restored by an answer that was already in flight."""

import asyncio
from datetime import timedelta

import pytest

from embedq.model import Ask, JobStatus, Lease, Outcome, Query, RecordId, WorkerId
from embedq.ports import Store
from embedq.testing.stores.stage import (
    LATE,
    LEASE,
    NOON,
    NOTES,
    Stage,
    declaration,
    done,
    embed_all,
    failed,
    has_vector_of,
    job_of,
    take,
    take_one,
    vector_of,
    write,
    write_many,
)

A = RecordId("a")


class ErasingFacts(Stage):
    """Facts about purging records."""

    async def test_an_erased_text_is_neither_stored_nor_reused(self, store: Store, other: Store) -> None:
        """Purged while its batch is at the provider: the late answer is discarded."""
        await write(store, "A")
        lease = await take_one(store)
        await other.delete(NOTES, [A], purge=True, now=NOON)

        settled = await store.settle([done(lease)], now=NOON)

        assert settled.jobs == frozenset()
        assert await _is_forgotten(store, lease)

    @pytest.mark.parametrize("asks", [False, True])
    async def test_an_erased_text_does_not_hold_up_its_batch(self, store: Store, *, asks: bool) -> None:
        """One of three is purged meanwhile: the others are stored, and nothing is left of the one."""
        await write_many(store, 3)
        leases = await take(store)
        await store.delete(NOTES, [RecordId("r1")], purge=True, now=NOON)
        ask = Ask(worker=WorkerId("w1"), spaces=[leases[0].space], limit=10, span=LEASE) if asks else None

        settled = await store.settle([done(lease) for lease in leases], then=ask, now=NOON)

        assert settled.jobs == {leases[0].job_id, leases[2].job_id}
        assert await has_vector_of(store, "text r 0", "r0")
        assert await has_vector_of(store, "text r 2", "r2")
        assert await _is_forgotten(store, leases[1])

    async def test_an_erased_text_stays_erased_after_a_rescue(self, store: Store) -> None:
        """Its lease expired before the purge: the late answer is discarded all the same."""
        await write(store, "A")
        lease = await take_one(store)
        await store.rescue(now=LATE)
        await store.delete(NOTES, [A], purge=True, now=LATE)

        await store.settle([done(lease)], now=LATE)

        assert await _is_forgotten(store, lease)

    async def test_an_erased_text_is_forgotten_though_deleted_before(self, store: Store) -> None:
        """Deleted first and then purged, both while its batch is at the provider."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [A], now=NOON)
        await store.delete(NOTES, [A], purge=True, now=NOON)

        await store.settle([done(lease)], now=NOON)

        assert await _is_forgotten(store, lease)

    async def test_an_erased_text_is_forgotten_though_another_took_its_place(self, store: Store) -> None:
        """The id was put again with a new text before the late answer came: only the new text is embedded."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [A], purge=True, now=NOON)
        receipt = await write(store, "B")

        await store.settle([done(lease)], now=NOON)

        assert await store.known(lease.space, [lease.hash]) == {}
        assert (await job_of(store, receipt)).status is JobStatus.PENDING
        await embed_all(store)
        assert await has_vector_of(store, "B")

    async def test_a_text_that_was_erased_may_come_again(self, store: Store) -> None:
        """Put again, it is embedded and reused like any other; the earlier answer fits, and may be accepted or not."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [A], purge=True, now=NOON)
        await write(store, "A")

        await store.settle([done(lease)], now=NOON)
        await embed_all(store)

        assert await has_vector_of(store, "A")
        assert list(await store.known(lease.space, [lease.hash])) == [lease.hash]

    @pytest.mark.parametrize("since", ["leased by others", "removed by retention", "of a lost history"])
    async def test_what_was_paid_for_after_an_erasure_is_kept(self, store: Store, since: str) -> None:
        """Leased after the purge: its vector is kept for reuse, whatever became of its lease and its job."""
        await write(store, "A")
        await store.delete(NOTES, [A], purge=True, now=NOON)
        await write(store, "A")
        lease = await take_one(store)
        await store.rescue(now=LATE)
        if since == "leased by others":
            await take_one(store, "w2", at=LATE)
            await store.rescue(now=LATE + 2 * LEASE)
            await take_one(store, "w3", at=LATE + 2 * LEASE)
        elif since == "removed by retention":
            await write(store, "B", at=LATE)
            await embed_all(store, at=LATE)
            await store.purge(older_than=timedelta(), now=LATE + LEASE)
        else:
            lease = lease._replace(nonce=lease.nonce ^ 1)

        settled = await store.settle([done(lease)], now=LATE)

        assert settled.jobs == frozenset()
        assert list(await store.known(lease.space, [lease.hash])) == [lease.hash]

    async def test_a_second_erasure_is_another_than_the_first(self, store: Store) -> None:
        """A lease from between the two stores nothing."""
        await write(store, "A")
        await store.delete(NOTES, [A], purge=True, now=NOON)
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [A], purge=True, now=NOON)
        await write(store, "B")

        await store.settle([done(lease)], now=NOON)

        assert await store.known(lease.space, [lease.hash]) == {}

    async def test_an_erased_text_is_forgotten_though_its_job_was_removed(self, store: Store) -> None:
        """Retention removed the job, and the id was put again with a new one: the late answer is discarded."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [A], purge=True, now=NOON)
        assert await store.purge(older_than=timedelta(), now=LATE) == 1
        before = await write(store, "B")

        await store.settle([done(lease)], now=NOON)

        assert before.job_id != lease.job_id
        assert await store.known(lease.space, [lease.hash]) == {}

    async def test_an_erased_text_is_forgotten_though_its_collection_is_a_new_one(self, store: Store) -> None:
        """Purged, dropped and declared again, with the same id in it: that is another record, never erased."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [A], purge=True, now=NOON)
        await store.drop(NOTES, now=NOON)
        await store.declare(declaration(), now=NOON)
        await write(store, "B")

        await store.settle([done(lease)], now=NOON)

        assert await store.known(lease.space, [lease.hash]) == {}

    async def test_a_purge_takes_what_was_kept_for_reuse(self, store: Store) -> None:
        """A vector that came too late for its deleted record is removed with the record's text."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [A], now=NOON)
        await store.settle([done(lease)], now=NOON)
        kept = await store.known(lease.space, [lease.hash])

        await store.delete(NOTES, [A], purge=True, now=NOON)

        assert list(kept) == [lease.hash]
        assert await _is_forgotten(store, lease)

    async def test_an_erased_text_of_a_live_record_is_still_known(self, store: Store) -> None:
        """Another record has the same text: its vector is not secret, and is reused."""
        await write(store, "A", "a")
        await write(store, "A", "b")
        await embed_all(store)

        await store.delete(NOTES, [A], purge=True, now=NOON)

        lease_hash = (await store.get(NOTES, [RecordId("b")]))[0].hash
        [space] = await store.spaces()
        assert list(await store.known(space.id, [lease_hash])) == [lease_hash]

    async def test_a_purge_beside_a_settle_leaves_nothing(self, store: Store, other: Store) -> None:
        """Whichever of the two comes first, nothing is left of the text."""
        for round_ in range(20):
            await write(store, f"text {round_}")
            lease = await take_one(store)
            outcome: Outcome = failed(lease) if round_ % 5 == 0 else done(lease)
            await asyncio.gather(store.settle([outcome], now=NOON), other.delete(NOTES, [A], purge=True, now=NOON))
            assert await _is_forgotten(store, lease)
            assert await take(store) == []


async def _is_forgotten(store: Store, lease: Lease) -> bool:
    """Say whether neither record nor search nor reuse has the text of a lease any more."""
    known = await store.known(lease.space, [lease.hash])
    hits = await store.search_vector(NOTES, vector_of(lease.text or ""), Query(k=10))
    records = await store.get(NOTES, [lease.record_id])
    return not known and not records and lease.record_id not in {hit.id for hit in hits}
