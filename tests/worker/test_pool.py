"""Workers as a crew: registered, restarted, stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from embedq.model import JobStatus
from embedq.telemetry import Event

if TYPE_CHECKING:
    from conftest import Gate, House


MINUTE = timedelta(minutes=1)


async def test_workers_register_and_leave(house: House) -> None:
    """Each worker of the pool stands in the registry while it runs, and no longer."""
    pool = house.pool(workers=3)
    await pool.start()
    registered = {worker.info.id for worker in await house.store.workers(heartbeat=MINUTE)}
    assert registered == set(pool.workers)
    assert len(registered) == 3

    await pool.stop()

    assert list(await house.store.workers(heartbeat=MINUTE)) == []


async def test_a_worker_that_was_struck_off_registers_again(house: House) -> None:
    """A worker that somebody took for dead is back in the registry with its next heartbeat."""
    pool = house.pool(heartbeat=timedelta(milliseconds=30))
    await pool.start()
    [worker] = pool.workers

    await house.store.leave(worker)

    await house.beaten(pool)


async def test_a_dead_worker_is_restarted_with_backoff(house: House) -> None:
    """A worker that dies of a bug hands its leases back, is started again, and the work gets done."""
    deaths = 0

    def truncates(_: str) -> bool:
        nonlocal deaths
        deaths += 1
        if deaths <= 2:
            raise ZeroDivisionError("a bug")
        return False

    house.provider.truncates = truncates
    await house.declare()
    await house.put(["a"])
    await house.pool().start()

    await house.settled(completed=1)
    told = house.ear.of(Event.RUNNER_RESTARTED)
    assert [facts["deaths"] for facts in told] == [1, 2]
    assert [facts["seconds"] for facts in told] == [1.0, 2.0]
    [job] = await house.jobs()
    assert (job.attempts, job.crashes) == (0, 0)


async def test_a_graceful_stop_lets_the_call_in_the_air_finish(house: House, gate: Gate) -> None:
    """What the provider was asked for is stored; what was leased ahead goes back; nothing stays leased."""
    house.provider.plan = gate
    await house.declare()
    await house.put([f"text {n}" for n in range(30)])
    pool = house.pool(batch_size=10)
    await pool.start()
    await gate.reached.wait()
    await house.settled(processing=20)

    stopping = asyncio.create_task(pool.stop(MINUTE))
    await asyncio.sleep(0)
    gate.opened.set()
    await stopping

    counts = await house.counts()
    assert (counts.completed, counts.pending, counts.processing) == (10, 20, 0)


async def test_a_stop_without_grace_hands_everything_back(house: House, gate: Gate) -> None:
    """A call that does not end in time is given up: its jobs are pending again, uncharged."""
    house.provider.plan = gate
    await house.declare()
    await house.put([f"text {n}" for n in range(30)])
    pool = house.pool(batch_size=10)
    await pool.start()
    await gate.reached.wait()

    await pool.stop(timedelta(0))

    jobs = await house.jobs()
    assert {job.status for job in jobs} == {JobStatus.PENDING}
    assert {(job.attempts, job.crashes) for job in jobs} == {(0, 0)}


async def test_a_stop_ends_a_long_backoff(house: House, gate: Gate) -> None:
    """A batch that waits out its backoff is released when the pool stops, long before the wait is over."""

    async def plan(_: Sequence[str]) -> None:
        raise RuntimeError("boom")

    house.provider.plan = plan
    await house.declare()
    await house.put(["a", "b"])
    pool = house.pool(sleep=gate)
    await pool.start()
    await gate.reached.wait()

    await pool.stop(MINUTE)

    counts = await house.counts()
    assert (counts.pending, counts.processing) == (2, 0)


async def test_a_pool_can_be_stopped_and_started_a_hundred_times(house: House) -> None:
    """Nothing leaks: no thread, no registry entry, no lease; and it still works in the end."""
    await house.declare()
    pool = house.pool(workers=2)
    await pool.start()
    await pool.stop()
    threads = threading.active_count()

    for _ in range(100):
        await pool.start()
        await pool.stop()

    assert threading.active_count() <= threads
    assert list(await house.store.workers(heartbeat=MINUTE)) == []
    await house.put(["a"])
    await pool.start()
    await house.settled(completed=1)


async def test_stopping_what_never_started_does_nothing(house: House) -> None:
    """Stop is safe at any time, also twice."""
    pool = house.pool()
    await pool.stop()
    await pool.start()
    await pool.stop()
    await pool.stop()
    assert not pool.is_running
