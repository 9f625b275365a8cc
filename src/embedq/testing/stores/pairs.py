"""Rule 11: failures between two databases that must not matter."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from embedq.errors import StoreError, StoreUnusable
from embedq.exchange import Arm, Cause, JobState, Written
from embedq.model import Ask, Done, EmbeddingStatus, JobStatus, NewRecord, Reason, RecordId, WorkerId
from embedq.policy.texts import hash_of
from embedq.ports import Store
from embedq.ports.halves import Corpus, JobStore
from embedq.stores.pair import PairStore
from embedq.stores.sqlite import SqliteCorpusStore
from embedq.telemetry import Telemetry
from embedq.testing.stores.pair_stage import PairStage, TwoPlaces
from embedq.testing.stores.stage import (
    DAY,
    LEASE,
    NOON,
    NOTES,
    done,
    embed_all,
    failed,
    has_vector_of,
    job_of,
    read,
    retry,
    take,
    take_one,
    vector_of,
    write,
    write_many,
)
from embedq.upkeep.reconcile import Reconcile

A = RecordId("a")
Halves = tuple[Corpus, JobStore]


class PairFacts(PairStage):
    """The gaps between a corpus and its queue."""

    @pytest_asyncio.fixture
    async def halves(self, store: Store, place: TwoPlaces) -> AsyncIterator[Halves]:
        """Open both halves again, to do one step without the next."""
        del store
        corpus, queue = await self.open_halves(place)
        yield corpus, queue
        await asyncio.gather(corpus.close(), queue.close())

    async def test_a_queue_belongs_to_one_corpus(self, store: Store, halves: Halves, place: TwoPlaces) -> None:
        """A worker of another corpus would find no record for its jobs, and cancel them."""
        await write(store, "A")
        stranger = await SqliteCorpusStore.open(place.folder / "stranger.db")

        with pytest.raises(StoreUnusable, match="another corpus"):
            await PairStore.join(stranger, halves[1])

        await stranger.close()
        await PairStore.join(*halves)  # its own, once more
        assert await embed_all(store) == 1

    async def test_a_corpus_is_known_by_its_identity(self, store: Store, halves: Halves, place: TwoPlaces) -> None:
        """It is the same whoever opens it, and another corpus has another."""
        del store
        again, stranger = (await self.open_halves(place))[0], await SqliteCorpusStore.open(place.folder / "stranger.db")

        assert await again.identity() == await halves[0].identity() != await stranger.identity()

        await asyncio.gather(again.close(), stranger.close())

    async def test_a_put_that_never_reached_the_queue_is_found(self, store: Store, halves: Halves) -> None:
        """A writer dies between the two: the record exists, and the reconciler gives it its job."""
        await halves[0].put(NOTES, [NewRecord(id=A, text="A")], now=NOON)

        assert await take(store) == []
        assert await _reconciled(store) == 1

        assert await embed_all(store) == 1
        assert await has_vector_of(store, "A")
        assert await _reconciled(store) == 0

    async def test_a_put_that_is_repeated_needs_no_reconciler(self, store: Store, halves: Halves) -> None:
        """The writer that died restarts and writes the same: this time the queue gets it."""
        await halves[0].put(NOTES, [NewRecord(id=A, text="A")], now=NOON)

        receipt = await write(store, "A")

        assert receipt.job_id is not None
        assert (await take_one(store)).text == "A"

    async def test_an_edit_that_never_reached_the_queue_is_not_lost(self, store: Store, halves: Halves) -> None:
        """Its job runs on the old text: the result is refused, and it runs again on the new one."""
        await write(store, "A")
        lease = await take_one(store)
        await halves[0].put(NOTES, [NewRecord(id=A, text="B")], now=NOON)

        await store.settle([done(lease)], now=NOON)

        assert (await read(store)).vector is None
        assert await embed_all(store) == 1
        assert await has_vector_of(store, "B")

    async def test_a_dead_letter_of_another_text_hides_no_edit(self, store: Store, halves: Halves) -> None:
        """A worker fails with the old text while the edit's enqueue is lost: no dead letter, and B is tried."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await halves[0].put(NOTES, [NewRecord(id=A, text="B")], now=NOON)

        await store.settle([failed(lease)], now=NOON)

        assert (await job_of(store, receipt)).status is JobStatus.PENDING
        assert (await take_one(store)).text == "B"

    async def test_an_older_dead_letter_hides_no_edit(self, store: Store, halves: Halves) -> None:
        """A text is given up on, then edited, and its enqueue is lost: the reconciler finds it."""
        await write(store, "A")
        await store.settle([failed(await take_one(store))], now=NOON)
        await halves[0].put(NOTES, [NewRecord(id=A, text="B")], now=NOON)

        assert await _reconciled(store) == 1

        assert (await take_one(store)).text == "B"

    async def test_enqueues_may_arrive_in_any_order(self, store: Store, halves: Halves) -> None:
        """The enqueue of B comes before that of A, though B is the newer text: it is embedded once, and that is all."""
        corpus, queue = halves
        first, second = await _put(corpus, "A"), await _put(corpus, "B")
        await queue.enqueue(NOTES, [_arm(second)], now=NOON)
        await queue.enqueue(NOTES, [_arm(first)], now=NOON)

        assert await embed_all(store) == 1

        assert await has_vector_of(store, "B")
        assert await take(store) == []
        assert await _reconciled(store) == 0

    async def test_a_lease_has_the_hash_of_the_text_it_read(self, store: Store, halves: Halves) -> None:
        """Never that of the job: the job was armed for A, the record has B, and then A again."""
        corpus, queue = halves
        first = await _put(corpus, "A")
        await _put(corpus, "B")
        await queue.enqueue(NOTES, [_arm(first)], now=NOON)
        lease = await take_one(store)
        assert (lease.text, lease.hash) == ("B", hash_of("B"))
        await _put(corpus, "A")

        await store.settle([done(lease)], now=NOON)

        assert (await read(store)).vector is None
        assert await embed_all(store) == 1
        assert await has_vector_of(store, "A")

    async def test_the_corpus_says_what_is_new_and_not_the_job(self, store: Store, halves: Halves) -> None:
        """The job was last armed for A, but B was embedded: putting A is a change all the same."""
        corpus, queue = halves
        first, second = await _put(corpus, "A"), await _put(corpus, "B")
        await queue.enqueue(NOTES, [_arm(second)], now=NOON)
        await queue.enqueue(NOTES, [_arm(first)], now=NOON)
        lease = await take_one(store)
        await write(store, "A")

        await store.settle([done(lease)], now=NOON)

        assert await embed_all(store) == 1
        assert await has_vector_of(store, "A")

    async def test_a_stale_worker_changes_nothing_in_the_queue(self, store: Store) -> None:
        """What it returns for the current text is stored, but the job is another's."""
        await write(store, "A")
        stale = await take_one(store)
        await store.rescue(dead=[WorkerId("w1")], now=NOON)
        fresh = await take_one(store, "w2")

        settled = await store.settle([done(stale)], now=NOON)

        assert settled.jobs == frozenset()
        assert await has_vector_of(store, "A")
        assert (await store.settle([done(fresh)], now=NOON)).jobs == {fresh.job_id}

    async def test_a_delete_that_never_reached_the_queue_ends_by_itself(self, store: Store, halves: Halves) -> None:
        """Its job finds no text, and a vector that comes too late is not stored."""
        receipt = await write(store, "A")
        late = await take_one(store)
        await halves[0].delete(NOTES, [A], now=NOON)

        await store.settle([done(late)], now=NOON)

        assert (await job_of(store, receipt)).reason is Reason.RECORD_DELETED
        assert await store.get(NOTES, [A]) == []
        assert await take(store) == []

    async def test_a_late_withdrawal_costs_only_time(self, store: Store, halves: Halves) -> None:
        """The record exists again when its job is cancelled for its deletion: the reconciler gives it another job."""
        await write(store, "A")
        await store.delete(NOTES, [A], now=NOON)
        await write(store, "A")
        await halves[1].withdraw(NOTES, [A], now=NOON)

        assert await _reconciled(store) == 1

        assert await embed_all(store) == 1
        assert await has_vector_of(store, "A")

    async def test_a_cancel_is_for_the_text_that_the_corpus_has(self, store: Store, halves: Halves) -> None:
        """The job was last armed for A, but the record has B: the reconciler does not undo the cancel."""
        corpus, queue = halves
        first, second = await _put(corpus, "A"), await _put(corpus, "B")
        await queue.enqueue(NOTES, [_arm(second)], now=NOON)
        [queued] = await queue.enqueue(NOTES, [_arm(first)], now=NOON)
        assert queued.job_id is not None

        await store.cancel(queued.job_id, now=NOON)

        assert await _reconciled(store) == 0
        assert (await read(store)).reason is Reason.CANCELLED

    async def test_a_cancel_for_a_former_tenant_changes_nothing(self, store: Store, halves: Halves) -> None:
        """Its record belongs to another tenant in the corpus, whether or not the queue has been told."""
        corpus, queue = halves
        [ours] = await store.put(NOTES, [NewRecord(id=A, text="A", tenant="ours")], now=NOON)
        assert ours.job_id is not None
        [before] = await corpus.standing(NOTES, [A])
        await corpus.delete(NOTES, [A], purge=True, now=NOON)
        await corpus.put(NOTES, [NewRecord(id=A, text="B", tenant="theirs")], now=NOON)

        assert await store.cancel(ours.job_id, tenant="ours", now=NOON) is None
        assert (await job_of(store, ours)).status is JobStatus.PENDING

        assert await _reconciled(store) == 0
        [theirs] = await store.put(NOTES, [NewRecord(id=A, text="B", tenant="theirs")], now=NOON)
        assert await queue.cancel(ours.job_id, before.hash, tenant="ours", now=NOON) is None
        job = await job_of(store, theirs)
        assert (job.status, job.tenant) == (JobStatus.PENDING, "theirs")

    async def test_what_was_given_up_on_is_noted_after_a_crash_too(self, store: Store, halves: Halves) -> None:
        """The queue has the dead letter, the record lacks the note: a walk adds it, and a purge hides nothing."""
        corpus, queue = halves
        await write(store, "A")
        lease = await take_one(store)
        await queue.settle([failed(lease)], await corpus.store([failed(lease)], now=NOON), now=NOON)  # type: ignore[arg-type]  # not locked

        assert await _reconciled(store) == 0
        while await store.purge(older_than=timedelta(0), now=NOON + DAY):
            continue

        assert (await read(store)).reason is Reason.PERMANENT_ERROR
        assert await _reconciled(store) == 0

    async def test_a_corpus_that_does_not_answer_charges_no_attempt(self, store: Store, halves: Halves) -> None:
        """The leases are released, and nothing is charged to their jobs."""
        receipt = await write(store, "A")
        broken = PairStore(_Silent(halves[0]), halves[1])  # type: ignore[arg-type]  # it implements all but one call
        ask = Ask(worker=WorkerId("w1"), spaces=[space.id for space in await store.spaces()], limit=1, span=LEASE)

        try:
            await broken.lease(ask, now=NOON)
        except StoreError:
            pass
        else:
            raise AssertionError("a lease without its text was given")

        job = await job_of(store, receipt)
        assert (job.status, job.attempts, job.crashes) == (JobStatus.PENDING, 0, 0)

    async def test_the_next_batch_is_leased_though_a_loss_cannot_be_noted(self, store: Store, halves: Halves) -> None:
        """The corpus goes away between the two: the worker gets its next jobs, and the reconciler notes the loss."""
        await write(store, "A", "a")
        await write(store, "B", "b")
        [lease] = await take(store, limit=1)
        broken = PairStore(_Forgetful(halves[0]), halves[1])  # type: ignore[arg-type]  # it implements all but one call
        ask = Ask(worker=WorkerId("w"), spaces=[lease.space], limit=10, span=timedelta(minutes=5))

        settled = await broken.settle([failed(lease)], then=ask, now=NOON)

        assert [following.text for following in settled.next.leases] == ["B"]
        assert await _reconciled(store) == 0
        [record] = await store.get(NOTES, [A])
        assert record.embedding_status is EmbeddingStatus.FAILED

    async def test_an_empty_queue_is_filled_without_paying_for_what_is_stored(
        self, store: Store, halves: Halves
    ) -> None:
        """What the queue has lost, the corpus still has: only what has no vector is embedded."""
        await write_many(store, 4)
        await store.settle([done(lease) for lease in await take(store, limit=2)], now=NOON)
        [stale] = await take(store, limit=1)
        old = {job.job_id for job in (await _states(halves, 4)).values()}

        await halves[1].forget(NOTES, now=NOON)

        assert await _reconciled(store) == 2
        fresh = await take(store)
        assert len(fresh) == 2
        assert not {lease.job_id for lease in fresh} & old
        assert (await store.settle([retry(stale)], now=NOON)).jobs == frozenset()
        assert (await store.settle([done(lease) for lease in fresh], now=NOON)).jobs == {one.job_id for one in fresh}
        assert await _reconciled(store) == 0

    async def test_a_vector_of_another_space_is_not_stored(self, store: Store, halves: Halves) -> None:
        """A lease from before a collection was declared with another embedder: its record is not in that space."""
        await write(store, "A")
        lease = await take_one(store)
        elsewhere = lease._replace(space=type(lease.space)("fake:another@0/1"))

        await halves[0].store([Done(elsewhere, vector_of("A"))], now=NOON)

        assert (await read(store)).vector is None


class _Silent:
    """A corpus that answers every call, but cannot return texts."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getattr__(self, name: str) -> object:
        return getattr(self._corpus, name)

    async def texts(self, *_: object) -> None:
        raise StoreError("the corpus cannot be reached")


class _Forgetful:
    """A corpus that answers every call, but cannot note what was given up on."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getattr__(self, name: str) -> object:
        return getattr(self._corpus, name)

    async def give_up(self, *_: object, **__: object) -> None:
        raise StoreError("the corpus cannot be reached")


async def _put(corpus: Corpus, text: str) -> Written:
    [written] = await corpus.put(NOTES, [NewRecord(id=A, text=text)], now=NOON)
    return written


def _arm(written: Written) -> Arm:
    return Arm(written.id, written.hash, Cause.PUT, priority=written.priority, same=written.same)


async def _states(halves: Halves, count: int) -> dict[RecordId, JobState]:
    return dict(await halves[1].states(NOTES, [RecordId(f"r{n}") for n in range(count)]))


async def _reconciled(store: Store) -> int:
    """Reconcile as upkeep does."""
    return (await Reconcile(store, Telemetry(), one_database=False).walk(now=NOON))[NOTES]
