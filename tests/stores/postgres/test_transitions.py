"""The rules are asked without a lock: what somebody changes meanwhile is asked again."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from embedq.errors import NotFound, StoreError
from embedq.model import (
    Ask,
    EmbeddingStatus,
    JobFilter,
    JobStatus,
    NewRecord,
    Priority,
    RecordId,
    Released,
    WorkerId,
)
from embedq.stores.postgres import PostgresStore, arming, keeping, transitions
from embedq.testing.stores.stage import (
    LATE,
    LEASE,
    NOON,
    NOTES,
    done,
    embed_all,
    failed,
    has_vector_of,
    job_of,
    retry,
    take,
    take_one,
    write,
    write_many,
)


async def test_what_changes_while_the_rules_are_asked_is_asked_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit between the facts and the writing: the job is armed, and runs again."""
    receipt = await write(store, "A")
    lease = await take_one(store)
    store._given.clear()  # so that the batch is not completed as a whole
    ask, asked = transitions._ask, 0

    async def ask_slowly(*values: Any) -> Any:  # noqa: ANN401 as it is
        nonlocal asked
        told = await ask(*values)
        if not asked:
            await write(store, "B")
        asked += 1
        return told

    monkeypatch.setattr(transitions, "_ask", ask_slowly)
    settled = await store.settle([done(lease)], now=NOON)

    assert asked == 2
    assert settled.jobs == {receipt.job_id}
    assert (await job_of(store, receipt)).status is JobStatus.PENDING
    assert await embed_all(store) == 1
    assert await has_vector_of(store, "B")


async def test_what_always_changes_is_busy(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks for ever: the worker keeps the lease, and comes back."""
    receipt = await write(store, "A")
    lease = await take_one(store)
    ask = transitions._ask

    async def ask_slowly(*values: Any) -> Any:  # noqa: ANN401 as it is
        told = await ask(*values)
        await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)
        return told

    monkeypatch.setattr(transitions, "_ask", ask_slowly)
    settled = await store.settle([retry(lease)], now=NOON)

    assert not settled.jobs
    assert settled.busy == {receipt.job_id}
    assert (await job_of(store, receipt)).status is JobStatus.PROCESSING


async def test_what_changes_while_the_rules_are_asked_is_not_armed(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two revive at once: one of them arms the job, which is leased before the other comes to it."""
    await write(store, "A")
    await store.settle([failed(await take_one(store))], now=NOON)
    arm, leases = keeping.arm, []

    async def arm_late(*values: Any) -> Any:  # noqa: ANN401 as it is
        monkeypatch.setattr(keeping, "arm", arm)
        assert await store.revive(JobFilter(), now=NOON) == 1
        leases.extend(await take(store))
        return await arm(*values)

    monkeypatch.setattr(keeping, "arm", arm_late)
    assert await store.revive(JobFilter(), now=NOON) == 0

    await store.settle([done(lease) for lease in leases], now=NOON)
    assert await embed_all(store) == 0


async def test_a_revive_looks_again_if_all_has_changed(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """None was armed, yet one is left: nobody is told that none is."""
    receipts = await write_many(store, 2)
    await store.settle([failed(lease) for lease in await take(store)], now=NOON)
    arm = keeping.arm

    async def arm_late(*values: Any) -> Any:  # noqa: ANN401 as it is
        monkeypatch.setattr(keeping, "arm", arm)
        *where, changes, now = values
        return await arm(*where, [replace(change, row={**change.row, "job_version": 0}) for change in changes], now)

    monkeypatch.setattr(keeping, "arm", arm_late)

    assert await store.revive(JobFilter(), now=NOON) == 2
    assert {(await job_of(store, receipt)).status for receipt in receipts} == {JobStatus.PENDING}


async def test_a_late_answer_takes_its_job_from_where_it_is(store: PostgresStore) -> None:
    """Taken back, and then done after all: the job is completed, and stands in no line."""
    receipts = await write_many(store, 2)
    leases = await take(store)
    await store.rescue(now=LATE)

    settled = await store.settle([done(lease) for lease in leases], now=LATE)

    assert settled.jobs == {receipt.job_id for receipt in receipts}
    assert await store.misplaced() == []
    assert await take(store, at=LATE) == []


async def test_a_job_told_of_twice_is_settled_once(store: PostgresStore) -> None:
    """Handed back and done at once: done counts first, and the other word comes after the lease."""
    receipt = await write(store, "A")
    lease = await take_one(store)

    settled = await store.settle([Released(lease), done(lease)], now=NOON)

    assert settled.jobs == {receipt.job_id}
    assert (await job_of(store, receipt)).status is JobStatus.COMPLETED
    assert await store.misplaced() == []


async def test_many_leases_are_rescued_in_steps(store: PostgresStore) -> None:
    """More leases are lost than are taken back at once."""
    await write_many(store, 60)
    for number in range(60):
        assert len(await take(store, f"w{number}", limit=1)) == 1

    rescued = await store.rescue(now=LATE)

    assert len({found.job_id for found in rescued}) == len(rescued) == 60
    assert await store.misplaced() == []


Act = Callable[[], Awaitable[object]]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Act) -> list[int]:
    """Act between the first reading and the first writing of a request by hand; note how much is asked each time."""
    arm, asked = arming.arm, list[int]()

    async def arm_late(*values: Any, **named: Any) -> Any:  # noqa: ANN401 as it is
        asked.append(len(values[3]))
        if len(asked) == 1:
            await act()
        return await arm(*values, **named)

    monkeypatch.setattr(arming, "arm", arm_late)
    return asked


async def test_what_changes_while_it_is_asked_for_by_hand_is_read_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of three is edited and embedded meanwhile: the other two are not asked about again."""
    receipts = await write_many(store, 3)
    await store.settle([failed(lease) for lease in await take(store)], now=NOON)

    async def act() -> None:
        await write(store, "B", "r1")
        await embed_all(store)

    asked = meanwhile(monkeypatch, act)
    again = await store.enqueue(NOTES, [RecordId(f"r{n}") for n in (2, 1, 0)], now=NOON)

    assert asked == [3, 1]
    assert [receipt.job_id for receipt in again] == [receipts[n].job_id for n in (2, 1, 0)]
    pending, embedded = EmbeddingStatus.PENDING, EmbeddingStatus.EMBEDDED
    assert [receipt.embedding_status for receipt in again] == [pending, embedded, pending]
    assert [(await job_of(store, receipt)).status for receipt in receipts] == [
        JobStatus.PENDING,
        JobStatus.COMPLETED,
        JobStatus.PENDING,
    ]


@pytest.mark.parametrize("force", [True, False])
async def test_a_record_that_goes_while_it_is_asked_for_refuses_all(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, *, force: bool
) -> None:
    """Deleted between reading and writing: nothing is written for the others, whether it would have been or not."""
    receipts = await write_many(store, 3)
    await store.settle([failed(lease) for lease in await take(store, limit=2)], now=NOON)
    meanwhile(monkeypatch, lambda: store.delete(NOTES, [RecordId("r2")], now=NOON))

    with pytest.raises(NotFound, match="'r2'"):
        await store.enqueue(NOTES, [RecordId(f"r{n}") for n in range(3)], force=force, now=NOON)

    assert [(await job_of(store, receipt)).status for receipt in receipts[:2]] == [JobStatus.FAILED] * 2
    assert await take(store) == []


async def test_a_record_that_changes_hands_while_it_is_asked_for_refuses_all(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Purged and put by another tenant, with a job that is not to be changed: it is not shown to the one that asks."""
    both = [NewRecord(id=RecordId(id_), text="A", tenant="ours") for id_ in ("a", "b")]
    receipts = await store.put(NOTES, both, now=NOON)
    await store.settle([failed(lease) for lease in await take(store, limit=1)], now=NOON)

    async def act() -> None:
        await store.delete(NOTES, [RecordId("b")], purge=True, now=NOON)
        await store.put(NOTES, [NewRecord(id=RecordId("b"), text="A", tenant="theirs")], now=NOON)

    meanwhile(monkeypatch, act)
    with pytest.raises(NotFound, match="'b'"):
        await store.enqueue(NOTES, [RecordId("a"), RecordId("b")], tenant="ours", now=NOON)

    assert (await job_of(store, receipts[0])).status is JobStatus.FAILED


async def test_a_job_moves_up_only_if_it_is_as_it_was(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has moved it further up meanwhile: it stays there."""
    receipt = await write(store, "A")

    async def act() -> None:
        monkeypatch.undo()
        await store.enqueue(NOTES, [RecordId("a")], job_priority=Priority.URGENT, now=NOON)

    meanwhile(monkeypatch, act)
    await store.enqueue(NOTES, [RecordId("a")], job_priority=Priority.HIGH, now=NOON)

    assert (await job_of(store, receipt)).priority == Priority.URGENT
    assert await store.misplaced() == []


async def test_the_next_batch_is_leased_though_held_jobs_cannot_be_settled(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes away when the settle comes back for a held job: the worker has its next jobs, and retries it."""
    await write_many(store, 2)
    [lease] = await take(store, limit=1)
    store._given.clear()  # so that the batch is not completed as a whole
    answers: list[Any] = [(frozenset(), frozenset({lease.job_id})), StoreError("cannot be reached")]

    async def settle(*_: Any, **__: Any) -> Any:  # noqa: ANN401 as it is
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(transitions, "settle", settle)
    ask = Ask(worker=WorkerId("w"), spaces=[lease.space], limit=10, span=LEASE)

    settled = await store.settle([done(lease)], then=ask, now=NOON)

    assert (settled.busy, len(settled.next.leases)) == ({lease.job_id}, 1)
