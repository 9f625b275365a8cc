"""The twelve promises, as far as a store keeps them; the worker's and the processes' part is tested with those."""

from datetime import timedelta

from embedq.model import (
    Budget,
    ContentHash,
    Done,
    EmbedderName,
    EmbeddingStatus,
    JobStatus,
    Reason,
    RecordId,
    Released,
)
from embedq.ports import Store
from embedq.testing.stores.stage import (
    DAY,
    DIMENSIONS,
    FAULT,
    HOUR,
    LATE,
    LEASE,
    MINUTE,
    NOON,
    NOTES,
    SECOND,
    Stage,
    declaration,
    done,
    embed_all,
    failed,
    has_vector_of,
    job_of,
    read,
    retry,
    space_of,
    take,
    take_one,
    write,
    write_many,
)


class PromiseFacts(Stage):
    """The promises of the design, in their order."""

    async def test_1_every_record_ends_with_a_vector_or_a_dead_letter(self, store: Store) -> None:
        """Nothing is lost: embedded, or failed with a reason; and then nothing is missing a job."""
        await write_many(store, 30)
        for round_ in range(8):
            at = NOON + round_ * HOUR
            for lease in await take(store, at=at, limit=7):
                bad = lease.record_id.endswith("3")
                await store.settle([failed(lease) if bad else done(lease)], now=at)

        records = (await store.records(NOTES)).items

        assert {record.embedding_status for record in records if record.id.endswith("3")} == {EmbeddingStatus.FAILED}
        assert {record.embedding_status for record in records if not record.id.endswith("3")} == {
            EmbeddingStatus.EMBEDDED
        }
        assert not any(missing.needs_job for missing in await store.missing(NOTES, limit=100))

    async def test_1_the_reconciler_never_finds_anything(self, store: Store) -> None:
        """On one database no sequence of calls leaves a live record with neither vector nor job nor dead letter."""
        await write(store, "A")
        lease = await take_one(store)
        await store.delete(NOTES, [RecordId("a")], now=NOON)
        await write(store, "A")
        await store.settle([done(lease)], now=NOON)
        await write(store, "B")
        await store.rescue(now=LATE)

        missing = await store.missing(NOTES)

        assert [found.needs_job for found in missing] == [False]
        assert await store.reconcile(NOTES, [RecordId("a")], now=LATE) == 0

    async def test_2_a_leased_job_is_not_leased_again(self, store: Store, other: Store) -> None:
        """Two workers never hold one job."""
        await write(store, "A")

        first = await take(store, "w1")
        second = await take(other, "w2")

        assert (len(first), len(second)) == (1, 0)

    async def test_2_tokens_only_grow(self, store: Store) -> None:
        """Every lease of a job has a larger token than the one before."""
        await write(store, "A")
        tokens = []
        for turn in range(3):
            lease = await take_one(store, at=NOON + turn * MINUTE)
            tokens.append(lease.token)
            await store.settle([retry(lease)], now=NOON + turn * MINUTE)

        assert tokens == sorted(set(tokens))

    async def test_3_a_vector_is_stored_only_under_its_own_text(self, store: Store) -> None:
        """An edit between lease and settle keeps the old vector from being stored."""
        await write(store, "A")
        lease = await take_one(store)
        await write(store, "B")
        await store.settle([done(lease)], now=NOON)

        assert (await read(store)).vector is None
        await embed_all(store)
        assert await has_vector_of(store, "B")

    async def test_5_attempts_count_failures_not_leases(self, store: Store) -> None:
        """A lease that is released or expires costs no attempt."""
        receipt = await write(store, "A")
        await store.settle([Released(await take_one(store))], now=NOON)
        await take_one(store)
        await store.rescue(now=LATE)

        job = await job_of(store, receipt)

        assert (job.attempts, job.crashes) == (0, 1)

    async def test_5_five_crashes_make_a_dead_letter(self, store: Store) -> None:
        """A job that crashes its worker five times is given up on, and says why."""
        receipt = await write(store, "A")
        for crash in range(5):
            await take_one(store, at=NOON + crash * 2 * LEASE)
            [rescued] = await store.rescue(now=NOON + (crash * 2 + 1) * LEASE)

        job = await job_of(store, receipt)

        assert (job.status, job.reason) == (JobStatus.FAILED, Reason.CRASH_LOOP)
        assert rescued.status is JobStatus.FAILED
        assert job.error is not None
        assert (await read(store)).reason is Reason.CRASH_LOOP

    async def test_5_a_late_done_saves_a_crash_loop(self, store: Store) -> None:
        """The fifth worker was only slow: its vector is accepted, and the dead letter is completed."""
        receipt = await write(store, "A")
        for crash in range(5):
            lease = await take_one(store, at=NOON + crash * 2 * LEASE)
            await store.rescue(now=NOON + (crash * 2 + 1) * LEASE)

        await store.settle([done(lease)], now=NOON + 20 * LEASE)

        assert (await job_of(store, receipt)).status is JobStatus.COMPLETED
        assert (await read(store)).embedding_status is EmbeddingStatus.EMBEDDED

    async def test_5_any_settle_ends_the_count_of_crashes(self, store: Store) -> None:
        """A worker that settled has not crashed."""
        receipt = await write(store, "A")
        await take_one(store)
        await store.rescue(now=LATE)
        await store.settle([retry(await take_one(store, at=LATE))], now=LATE)

        assert (await job_of(store, receipt)).crashes == 0

    async def test_6_not_now_costs_no_attempt(self, store: Store) -> None:
        """A refused batch is leased again whole, uncharged, when it is due."""
        await write_many(store, 5)
        leases = await take(store)
        await store.settle([Released(lease, after=MINUTE, refused=FAULT) for lease in leases], now=NOON)

        assert await take(store, at=NOON + 59 * SECOND) == []
        again = await take(store, at=NOON + MINUTE)
        assert [lease.attempts for lease in again] == [0] * 5

    async def test_6_a_hold_stops_the_whole_fleet(self, store: Store, other: Store) -> None:
        """Retry-After is obeyed by every process, for that provider only."""
        await write(store, "A")
        await store.hold(await space_of(store), MINUTE, now=NOON)

        assert await take(other, at=NOON + 59 * SECOND) == []
        assert await other.take(await space_of(store), None, now=NOON + 50 * SECOND) == 10 * SECOND
        assert len(await take(other, at=NOON + MINUTE)) == 1

    async def test_6_an_hour_of_refusals_is_a_quota_letter(self, store: Store) -> None:
        """Refused for the whole window without one success: a dead letter, replayed automatically a day later."""
        receipt = await write(store, "A")
        for minutes in (0, 30, 60):
            at = NOON + minutes * MINUTE
            await store.settle([Released(await take_one(store, at=at), refused=FAULT)], now=at)

        job = await job_of(store, receipt)
        assert (job.status, job.reason) == (JobStatus.FAILED, Reason.QUOTA)
        assert await store.replay_quota(older_than=DAY, now=NOON + DAY) == 0
        assert await store.replay_quota(older_than=DAY, now=NOON + DAY + HOUR) == 1
        assert (await job_of(store, receipt)).status is JobStatus.PENDING

    async def test_6_one_success_ends_the_throttle_window(self, store: Store) -> None:
        """A provider that still serves some requests has not cut us off."""
        receipt = await write(store, "A", "a")
        await store.settle([Released(await take_one(store), refused=FAULT, after=2 * HOUR)], now=NOON)
        served = NOON + HOUR + MINUTE
        await write(store, "B", "b", at=served)
        await store.settle([done(await take_one(store, at=served))], now=served)
        lease = await take_one(store, at=NOON + 2 * HOUR)

        await store.settle([Released(lease, refused=FAULT)], now=NOON + 2 * HOUR)

        assert (await job_of(store, receipt)).status is JobStatus.PENDING

    async def test_6_the_window_restarts_after_a_success(self, store: Store) -> None:
        """An hour of refusals after the last success is as long as any other."""
        receipt = await write(store, "A", "a")
        await store.settle([Released(await take_one(store), refused=FAULT, after=2 * HOUR)], now=NOON)
        await write(store, "B", "b", at=NOON + MINUTE)
        await store.settle([done(await take_one(store, at=NOON + MINUTE))], now=NOON + MINUTE)
        late = NOON + 2 * HOUR
        await store.settle([Released(await take_one(store, at=late), refused=FAULT)], now=late)

        assert (await job_of(store, receipt)).reason is Reason.QUOTA

    async def test_6_the_budget_is_one_for_all_processes(self, store: Store, other: Store) -> None:
        """No window exceeds the budget's requests."""
        space = await space_of(store)
        budget = Budget(requests=3, interval=MINUTE)
        taken = [await which.take(space, budget, now=NOON) for which in (store, other, store)]

        assert taken == [timedelta(0)] * 3
        assert await other.take(space, budget, now=NOON + 20 * SECOND) == 40 * SECOND
        assert await other.take(space, budget, now=NOON + MINUTE) == timedelta(0)

    async def test_8_a_vector_of_the_same_text_is_known(self, store: Store) -> None:
        """Another record with the same text need not pay."""
        await write(store, "A", "a")
        await embed_all(store)
        await write(store, "A", "b")
        lease = await take_one(store)

        known = await store.known(lease.space, [lease.hash])

        await store.settle([Done(lease, known[lease.hash])], now=NOON)
        assert await has_vector_of(store, "A", "b")

    async def test_8_a_hash_that_only_begins_alike_is_another_text(self, store: Store) -> None:
        """A vector is reused by its whole hash, whether a record has it or it was kept as a spare."""
        await write(store, "A", "a")
        await write(store, "B", "b")
        leases = await take(store)
        await write(store, "C", "b")
        await store.settle([done(lease) for lease in leases], now=NOON)
        alike = [ContentHash(lease.hash[:-1] + bytes([lease.hash[-1] ^ 1])) for lease in leases]
        alike += [ContentHash(lease.hash[:8] + bytes(24)) for lease in leases]

        known = await store.known(leases[0].space, [*alike, *(lease.hash for lease in leases)])

        assert set(known) == {lease.hash for lease in leases}

    async def test_8_a_vector_of_another_space_is_not_known(self, store: Store) -> None:
        """Vectors of two spaces are never mixed, neither those of records nor spare ones."""
        await write(store, "A", "a")
        await write(store, "B", "b")
        leases = await take(store)
        await write(store, "C", "b")
        await store.settle([done(lease) for lease in leases], now=NOON)
        other = await store.declare(declaration("others", embedder=EmbedderName(provider="fake", model="other")))
        await store.learn(other.space.id, DIMENSIONS)

        assert await store.known(other.space.id, [lease.hash for lease in leases]) == {}

    async def test_8_putting_the_same_again_queues_nothing(self, store: Store) -> None:
        """The answer has the same job."""
        first = await write(store, "A")
        await embed_all(store)

        second = await write(store, "A")

        assert second.job_id == first.job_id
        assert second.embedding_status is EmbeddingStatus.EMBEDDED
        assert await take(store) == []

    async def test_8_the_same_text_put_while_its_job_runs_is_paid_once(self, store: Store) -> None:
        """It is no edit: the running job is the one, and its answer completes it."""
        receipt = await write(store, "A")
        lease = await take_one(store)
        await write(store, "A")

        await store.settle([done(lease)], now=NOON)

        assert (await job_of(store, receipt)).status is JobStatus.COMPLETED
        assert await take(store) == []

    async def test_9_the_old_vector_serves_until_the_new_one_is_there(self, store: Store) -> None:
        """A record that waits for its new vector still has the old one."""
        await write(store, "A")
        await embed_all(store)

        await write(store, "B")

        assert await has_vector_of(store, "A")
        assert (await read(store)).embedding_status is EmbeddingStatus.PENDING

    async def test_10_a_clock_set_back_does_not_stop_retries(self, store: Store) -> None:
        """A wait that begins in the future counts as past."""
        await write(store, "A")
        await store.settle([retry(await take_one(store), after=MINUTE)], now=NOON)

        assert len(await take(store, at=NOON - HOUR)) == 1

    async def test_10_a_clock_set_back_does_not_stop_rescue(self, store: Store) -> None:
        """A lease of a dead worker does not outlive a clock that was set back."""
        await write(store, "A")
        await take_one(store)

        rescued = await store.rescue(now=NOON - HOUR)

        assert len(rescued) == 1

    async def test_10_a_clock_set_back_does_not_stop_a_hold_or_a_budget(self, store: Store) -> None:
        """Nor does it keep a provider on hold for longer than was asked."""
        await write(store, "A")
        space = await space_of(store)
        await store.hold(space, MINUTE, now=NOON)
        budget = Budget(requests=1, interval=MINUTE)
        await store.take(space, budget, now=NOON + 2 * MINUTE)

        assert len(await take(store, at=NOON - HOUR)) == 1
        assert await store.take(space, budget, now=NOON - HOUR) == timedelta(0)

    async def test_10_a_hold_from_before_the_clock_was_set_back_is_over(self, store: Store) -> None:
        """A short hold after it does not restore the old one."""
        space = await space_of(store)
        await store.hold(space, MINUTE, now=NOON)

        await store.hold(space, 10 * SECOND, now=NOON - HOUR)

        assert await store.take(space, None, now=NOON - HOUR + 20 * SECOND) == timedelta(0)

    async def test_11_pause_is_seen_by_every_process(self, store: Store, other: Store) -> None:
        """Pause is stored in the database."""
        await write(store, "A")
        await store.pause()

        assert await other.paused()
        assert await take(other) == []
        await other.resume()
        assert not await store.paused()
        assert len(await take(store)) == 1

    async def test_11_a_settle_goes_on_while_paused(self, store: Store) -> None:
        """What is in progress may end; the next batch is not leased."""
        await write(store, "A", "a")
        lease = await take_one(store)
        await write(store, "B", "b")
        await store.pause()

        settled = await store.settle([done(lease)], now=NOON)

        assert len(settled.jobs) == 1
        assert await take(store) == []
