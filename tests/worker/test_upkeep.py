"""What runs unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from embedq.model import (
    Ask,
    Done,
    ErrorCategory,
    Failed,
    Fault,
    HealthReport,
    JobStatus,
    Lease,
    Process,
    Reason,
    RecordId,
    Released,
    WorkerId,
    WorkerInfo,
)
from embedq.telemetry import Event
from embedq.upkeep import HostLiveness, Upkeep, UpkeepOptions
from embedq.upkeep.periodic import Periodic
from embedq.upkeep.purge import Purge
from embedq.upkeep.reconcile import Reconcile
from embedq.upkeep.replay import ReplayQuota, RetryFailed
from embedq.upkeep.rescue import Rescue
from embedq.upkeep.watch import Watch

if TYPE_CHECKING:
    from conftest import House


NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NEVER = timedelta(0)
FAULT = Fault(ErrorCategory.PERMANENT, "400", "no")


async def lease(house: House, *, worker: str = "w1", limit: int = 10, now: datetime = NOON) -> Sequence[Lease]:
    spaces = [space.id for space in await house.store.spaces()]
    ask = Ask(worker=WorkerId(worker), spaces=spaces, limit=limit, span=5 * MINUTE)
    return (await house.store.lease(ask, now=now)).leases


async def register(house: House, process: Process, *, name: str = "w1", now: datetime = NOON) -> None:
    info = WorkerInfo(id=WorkerId(name), process=process, version="1", embedder="fake")
    await house.store.register(info, now=now)


def rescue(house: House) -> Rescue:
    return Rescue(house.store, HostLiveness(), house.telemetry, heartbeat=MINUTE)


async def test_rescue_takes_expired_leases_back_and_names_the_jobs(house: House) -> None:
    """A lease that ran out is pending again, with one crash counted, and the log names the job."""
    await house.declare()
    await house.put(["a"])
    [held] = await lease(house)

    await rescue(house)(now=NOON + 4 * MINUTE)
    assert house.ear.of(Event.RESCUED) == []
    await rescue(house)(now=NOON + 6 * MINUTE)

    [told] = house.ear.of(Event.RESCUED)
    assert told["jobs"] == [held.job_id]
    [job] = await house.jobs()
    assert (job.status, job.attempts, job.crashes) == (JobStatus.PENDING, 0, 1)


async def test_jobs_of_a_dead_process_of_this_host_are_rescued_at_once(house: House) -> None:
    """Long before the lease runs out, jobs of a process that is surely dead are taken back; it leaves the registry."""
    me = HostLiveness().me()
    await register(house, replace(me, born="0"), name="dead")
    await register(house, me, name="alive")
    await house.declare()
    await house.put(["a", "b"])
    [lost] = await lease(house, worker="dead", limit=1)
    await lease(house, worker="alive", limit=1)

    await rescue(house)(now=NOON + timedelta(seconds=1))

    [told] = house.ear.of(Event.RESCUED)
    assert (told["jobs"], told["because"]) == ([lost.job_id], "the process is dead")
    workers = await house.store.workers(heartbeat=MINUTE, now=NOON)
    assert [worker.info.id for worker in workers] == ["alive"]


async def test_a_silent_worker_is_warned_of_once(house: House) -> None:
    """After three heartbeats without a sign there is one warning; a new silence is worth a new one."""
    await register(house, HostLiveness().me())
    watch = Watch(house.store, house.telemetry, heartbeat=MINUTE)

    await watch(now=NOON + 2 * MINUTE)
    assert house.ear.of(Event.HEARTBEAT_MISSED) == []
    await watch(now=NOON + 4 * MINUTE)
    await watch(now=NOON + 5 * MINUTE)
    assert [facts["workerId"] for facts in house.ear.of(Event.HEARTBEAT_MISSED)] == ["w1"]

    await house.store.beat(WorkerId("w1"), HealthReport(), now=NOON + 6 * MINUTE)
    await watch(now=NOON + 6 * MINUTE)
    await watch(now=NOON + 10 * MINUTE)
    assert len(house.ear.of(Event.HEARTBEAT_MISSED)) == 2


async def test_purge_deletes_finished_jobs_past_retention_only(house: House) -> None:
    """Completed and failed jobs of fifteen days ago go; pending ones and young ones stay."""
    await house.declare()
    await house.put(["a", "b", "c"])
    first, second = await lease(house, limit=2)
    vector = np.ones(8, np.float32)
    await house.store.settle([Done(first, vector), Failed(second, FAULT, Reason.PERMANENT_ERROR)], now=NOON)
    purge = Purge(house.store, house.telemetry, retention=timedelta(days=14))

    await purge(now=NOON + timedelta(days=13))
    assert len(await house.jobs()) == 3
    await purge(now=NOON + timedelta(days=15))

    assert [job.status for job in await house.jobs()] == [JobStatus.PENDING]
    [told] = house.ear.of(Event.PURGED)
    assert told["count"] == 2


async def test_reconcile_finds_nothing_on_one_database(house: House) -> None:
    """Records that are queued, done, given up on or cancelled need no job, so there is no alarm."""
    await house.declare()
    await house.put(["queued", "done", "given up", "cancelled"])
    leases = {item.record_id: item for item in await lease(house)}
    vector = np.ones(8, np.float32)
    await house.store.settle(
        [
            Released(leases[RecordId("r0")]),
            Done(leases[RecordId("r1")], vector),
            Failed(leases[RecordId("r2")], FAULT, Reason.PERMANENT_ERROR),
            Released(leases[RecordId("r3")]),
        ],
        now=NOON,
    )
    await house.store.cancel(leases[RecordId("r3")].job_id)

    found = await Reconcile(house.store, house.telemetry, one_database=True).walk()

    assert found == {"notes": 0}
    assert house.ear.of(Event.RECONCILED) == []


async def test_quota_letters_are_replayed_after_their_rest(house: House) -> None:
    """A letter with reason `quota` is pending again after 24 hours; other letters stay."""
    await house.declare()
    await house.put(["a", "b"])
    first, second = await lease(house)
    await house.store.settle(
        [Failed(first, FAULT, Reason.QUOTA), Failed(second, FAULT, Reason.PERMANENT_ERROR)], now=NOON
    )
    replay = ReplayQuota(house.store, house.telemetry, rest=timedelta(hours=24))

    await replay(now=NOON + timedelta(hours=23))
    assert (await house.counts()).failed == 2
    await replay(now=NOON + timedelta(hours=25))

    counts = await house.counts()
    assert (counts.failed, counts.pending) == (1, 1)
    assert [facts["count"] for facts in house.ear.of(Event.QUOTA_REPLAYED)] == [1]


async def test_retry_failed_revives_once(house: House) -> None:
    """At startup every dead letter gets another chance; what fails again afterwards stays dead."""
    await house.declare()
    await house.put(["a"])
    [held] = await lease(house)
    await house.store.settle([Failed(held, FAULT, Reason.PERMANENT_ERROR)], now=NOON)
    retry_failed = RetryFailed(house.store, house.telemetry)

    await retry_failed(now=NOON)
    assert (await house.counts()).pending == 1
    [again] = await lease(house, now=NOON)
    await house.store.settle([Failed(again, FAULT, Reason.PERMANENT_ERROR)], now=NOON)
    await retry_failed(now=NOON)

    assert (await house.counts()).failed == 1


async def test_a_duty_that_fails_is_told_and_done_again(house: House) -> None:
    """An error ends neither its loop nor anything else; it is told when it begins, and when it is over."""
    rounds = asyncio.Queue[int]()
    count = 0

    async def duty() -> None:
        nonlocal count
        count += 1
        rounds.put_nowait(count)
        if count < 3:
            raise RuntimeError("the disk is on fire")

    periodic = Periodic(
        "rescue", timedelta(microseconds=1), duty, telemetry=house.telemetry, failed=Event.RESCUE_FAILED
    )
    periodic.start()
    assert [await rounds.get() for _ in range(3)] == [1, 2, 3]
    await periodic.stop()

    told = house.ear.of(Event.RESCUE_FAILED)
    assert [(facts["duty"], facts["error"]) for facts in told] == [("rescue", "RuntimeError: the disk is on fire")]
    [over] = house.ear.of(Event.RECOVERED)
    assert (over["after"], over["duty"], over["times"]) == ("rescue_failed", "rescue", 2)


@pytest.mark.parametrize("interval", [NEVER, MINUTE])
async def test_an_interval_of_zero_switches_rescue_off(house: House, interval: timedelta) -> None:
    """With a recovery interval of zero nothing is rescued, not even at boot; otherwise at boot."""
    await house.declare()
    await house.put(["a"])
    await lease(house, now=datetime.now(UTC) - 10 * MINUTE)
    upkeep = Upkeep(
        house.store, HostLiveness(), options=UpkeepOptions(rescue_interval=interval), telemetry=house.telemetry
    )

    upkeep.start()
    await house.ear.hear(Event.RESCUED if interval else Event.HEARTBEAT_MISSED)  # the rescue, or the watch, went round
    assert ("rescue" in upkeep.duties) is bool(interval)
    await upkeep.stop()

    assert (await house.counts()).processing == (0 if interval else 1)


async def test_upkeep_can_be_stopped_and_started_again(house: House) -> None:
    """A hundred starts and stops leave no task behind."""
    upkeep = Upkeep(
        house.store,
        HostLiveness(),
        options=UpkeepOptions(retry_failed_on_startup=True),
        telemetry=house.telemetry,
    )
    before = len(asyncio.all_tasks())

    for _ in range(100):
        upkeep.start()
        await upkeep.stop()

    assert len(asyncio.all_tasks()) == before
