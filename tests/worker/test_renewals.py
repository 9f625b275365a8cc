"""Which leases the heartbeat keeps alive: all that are in hand, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from embedq.model import JobId, JobStatus, Lease, Outcome, Settled
from embedq.telemetry import Event
from embedq.testing.stores.stage import take_one
from embedq.worker.held_leases import HeldLeases

if TYPE_CHECKING:
    from conftest import Gate, House


@pytest.fixture
def renewals(house: House, monkeypatch: pytest.MonkeyPatch) -> list[set[JobId]]:
    """List what each beat has renewed, or tried to."""
    noted: list[set[JobId]] = []
    renew = house.store.renew

    async def note(leases: Sequence[Lease], **options: Any) -> set[JobId]:  # noqa: ANN401 passed on
        noted.append({lease.job_id for lease in leases})
        return await renew(leases, **options)

    monkeypatch.setattr(house.store, "renew", note)
    return noted


async def test_a_batch_that_came_with_a_settle_is_renewed(house: House, gate: Gate, renewals: list[set[JobId]]) -> None:
    """Of five batches the last, which was leased while another was settled, is kept alive while its call lasts."""

    async def plan(texts: Sequence[str]) -> None:
        if texts == ["text 4"]:
            await gate()

    await house.declare()
    await house.put([f"text {n}" for n in range(5)])
    house.provider.plan = plan
    pool = house.pool(batch_size=1, heartbeat=house.tick)
    await pool.start()
    await gate.reached.wait()
    await house.settled(completed=4)
    renewals.clear()

    for _ in range(3):
        await house.beaten(pool)

    [job] = await house.jobs(JobStatus.PROCESSING)
    assert {job.id} in renewals
    gate.opened.set()
    await house.settled(completed=5)


async def test_what_is_settled_is_not_renewed_any_more(house: House, renewals: list[set[JobId]]) -> None:
    """A worker whose jobs are done, failed or handed back holds nothing, and its heartbeat asks for nothing."""
    await house.declare()
    await house.put([f"text {n}" for n in range(20)])
    pool = house.pool(batch_size=3, heartbeat=house.tick)
    await pool.start()
    await house.settled(completed=20)
    await house.beaten(pool)  # a beat may have begun before the last settle had its answer
    renewals.clear()

    for _ in range(3):
        await house.beaten(pool)

    assert renewals == []


async def test_a_beat_during_a_settle_misses_nothing(
    house: House, gate: Gate, renewals: list[set[JobId]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has settled a job, and its answer is on the way: that its lease is over is no loss."""
    settle = house.store.settle

    async def slowly(outcomes: Sequence[Any], **options: Any) -> object:  # noqa: ANN401 passed on
        settled = await settle(outcomes, **options)
        if outcomes:
            await gate()
        return settled

    monkeypatch.setattr(house.store, "settle", slowly)
    await house.declare()
    await house.put(["a"])
    pool = house.pool(heartbeat=house.tick)
    await pool.start()
    await gate.reached.wait()
    [job] = await house.jobs()
    renewals.clear()

    for _ in range(3):
        await house.beaten(pool)

    assert {job.id} in renewals
    assert house.ear.of(Event.LEASE_LOST) == []
    gate.opened.set()
    assert job.status is JobStatus.COMPLETED


async def test_what_somebody_else_holds_is_renewed_until_it_is_settled(
    house: House, renewals: list[set[JobId]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose row an application holds cannot be settled just now: its lease is kept alive meanwhile."""
    settle, is_held = house.store.settle, True

    async def held(outcomes: Sequence[Outcome], **options: Any) -> Settled:  # noqa: ANN401 passed on
        if outcomes and is_held:
            return Settled(jobs=frozenset(), busy=frozenset(outcome.lease.job_id for outcome in outcomes))
        return await settle(outcomes, **options)

    monkeypatch.setattr(house.store, "settle", held)
    await house.declare()
    await house.put(["a"])
    pool = house.pool(heartbeat=house.tick)
    await pool.start()
    await house.ear.hear(Event.EMBEDDED)
    await house.beaten(pool)
    renewals.clear()

    for _ in range(3):
        await house.beaten(pool)

    [job] = await house.jobs()
    assert (job.status, {job.id} in renewals) == (JobStatus.PROCESSING, True)
    is_held = False
    await house.settled(completed=1)
    assert len(house.provider.calls) == 1


async def test_an_unknown_error_does_not_end_the_retries_of_a_held_job(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was busy, and then something unforeseen happens: it is settled by a later retry all the same."""
    settle, answers = house.store.settle, ["busy", "broken"]

    async def held(outcomes: Sequence[Outcome], **options: Any) -> Settled:  # noqa: ANN401 passed on
        match answers.pop(0) if outcomes and answers else None:
            case "busy":
                return Settled(jobs=frozenset(), busy=frozenset(outcome.lease.job_id for outcome in outcomes))
            case "broken":
                raise RuntimeError("unforeseen")
        return await settle(outcomes, **options)

    monkeypatch.setattr(house.store, "settle", held)
    await house.declare()
    await house.put(["a"])
    await house.pool().start()

    await house.settled(completed=1)
    assert answers == []
    assert len(house.provider.calls) == 1


async def test_a_token_that_came_again_is_another_lease(house: House) -> None:
    """After a failover a worker may hold a lease of the same job and token: ending the lost one leaves it held."""
    await house.declare()
    await house.put(["a"])
    lost = await take_one(house.store)
    again = lost._replace(nonce=lost.nonce + 1)
    held = HeldLeases()
    held.add([lost, again])

    held.drop([lost])

    assert held.all() == [again]
    assert held.lose([lost]) == []
