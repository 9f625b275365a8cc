"""What a worker does with the leases in its hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from embedq.errors import NotNow, Transient
from embedq.model import (
    Ask,
    Budget,
    ContentHash,
    JobFilter,
    JobId,
    JobStatus,
    Lease,
    NewRecord,
    Priority,
    RecordId,
    SpaceId,
    Vector,
    WorkerId,
)
from embedq.stores.sqlite import SqliteStore, deleting
from embedq.telemetry import Event, Telemetry

if TYPE_CHECKING:
    import pytest

    from conftest import Gate, House, Provider


THIRTY = [f"text {n}" for n in range(30)]
HOUR = timedelta(hours=1)


async def test_refused_leases_and_those_leased_ahead_go_back(house: House, make_provider: type[Provider]) -> None:
    """When the provider says "not now" for an hour, nothing stays leased: neither the batch nor the next one."""
    house.provider = make_provider(remote=True)

    async def plan(_: Sequence[str]) -> None:
        raise NotNow("tomorrow", retry_after=HOUR)

    await house.declare()
    await house.put(THIRTY)
    house.provider.plan = plan
    await house.pool(batch_size=10).start()

    await house.ear.hear(Event.THROTTLED)
    await house.settled(pending=30, processing=0)
    assert len(house.provider.calls) == 1


async def test_leases_that_have_not_started_do_not_wait_for_the_provider(
    house: House, make_provider: type[Provider]
) -> None:
    """Refused for a minute, less than a lease: what was leased ahead goes back at once, and nobody sits on it."""
    house.provider = make_provider(remote=True)

    async def plan(_: Sequence[str]) -> None:
        raise NotNow("in a minute", retry_after=timedelta(minutes=1))

    await house.declare()
    await house.put(THIRTY)
    house.provider.plan = plan
    await house.pool(batch_size=10).start()

    await house.ear.hear(Event.THROTTLED)
    await house.settled(pending=30, processing=0)
    assert house.slept == []
    assert [facts["released"] for facts in house.ear.of(Event.SETTLED)] == [20]  # both batches at once
    assert len(house.provider.calls) == 1


async def test_a_batch_without_budget_goes_back_whole(house: House, make_provider: type[Provider]) -> None:
    """With the budget empty nothing stays leased, neither the batch in hand nor the one leased ahead."""
    house.provider = make_provider(remote=True)
    await house.declare()
    await house.put(THIRTY)
    budget = Budget(requests=1, interval=timedelta(milliseconds=300))
    await house.pool(batch_size=10, budget=budget).start()

    await house.ear.hear(Event.BUDGET_EMPTY)
    await house.settled(processing=0, completed=10, pending=20)

    await house.settled(completed=30)
    assert [len(call) for call in house.provider.calls] == [10, 10, 10]
    assert {job.attempts for job in await house.jobs()} == {0}


async def test_a_batch_that_waits_keeps_only_what_it_waits_for(
    house: House, make_provider: type[Provider], gate: Gate
) -> None:
    """While a failed piece waits to go again in halves, what was done is settled, and what was leased ahead is back."""
    house.provider = make_provider(max_inputs=5)

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) == 2:
            raise Transient("stumbled", code="503")

    await house.declare()
    await house.put(THIRTY)
    house.provider.plan = plan
    await house.pool(batch_size=10, sleep=gate).start()
    await gate.reached.wait()

    await house.settled(completed=5, processing=5, pending=20)

    gate.opened.set()
    await house.settled(completed=30)


async def test_nobody_sits_on_leases_for_longer_than_they_last(house: House, make_provider: type[Provider]) -> None:
    """Where the budget is empty for hours, the batch in hand goes back too, and the whole fleet is told to wait."""
    house.provider = make_provider(remote=True)
    await house.declare()
    await house.put(THIRTY)
    await house.pool(batch_size=10, budget=Budget(requests=1, interval=3 * HOUR)).start()

    await house.ear.hear(Event.BUDGET_EMPTY)
    await house.settled(completed=10, pending=20, processing=0)

    assert house.slept == []
    [budget] = (await house.store.budgets()).values()
    assert budget["held_seconds"] > HOUR.total_seconds()
    assert len(house.provider.calls) == 1


async def test_jobs_of_a_collection_that_is_gone_are_skipped(house: House) -> None:
    """Nothing is left to embed: the provider is not asked, and what others have is embedded."""
    await house.declare("gone")
    await house.put(["lost"], "gone")
    await house.declare()
    await house.put(["kept"])
    await house.store._file.write(lambda tx: deleting.drop(tx, "gone"))  # whoever drops it has not come to its end

    await house.pool().start()

    await house.settled(completed=1)
    assert house.provider.calls == [["kept"]]
    assert sum(facts["skipped"] for facts in house.ear.of(Event.SETTLED)) == 1


async def test_an_edit_while_embedding_runs_again(house: House, gate: Gate) -> None:
    """A text that changes while its job runs is embedded too, and its vector is the one that stays."""

    async def plan(texts: Sequence[str]) -> None:
        if texts == ["old"]:
            await gate()

    await house.declare()
    await house.put(["old"])
    house.provider.plan = plan
    await house.pool().start()
    await gate.reached.wait()

    await house.put(["new"])
    gate.opened.set()

    await house.settled(completed=1)
    [record] = await house.store.get("notes", [RecordId("r0")], with_vectors=True)
    assert record.vector.tolist() == house.provider.vectors(["new"])[0].tolist()
    assert house.provider.calls == [["old"], ["new"]]


async def test_a_worker_that_lost_its_lease_changes_nothing(house: House, gate: Gate) -> None:
    """A job rescued and leased by another is left alone by the first, which says that it lost it."""
    house.provider.plan = gate
    await house.declare()
    await house.put(["a"])
    await house.pool().start()
    await gate.reached.wait()
    later = datetime.now(UTC) + timedelta(minutes=6)
    await house.store.rescue(now=later)
    [space] = await house.store.spaces()
    ask = Ask(worker=WorkerId("other"), spaces=[space.id], limit=1, span=HOUR)
    other = await house.store.lease(ask, now=later)

    gate.opened.set()

    [lost] = await house.ear.hear(Event.LEASE_LOST)
    assert lost["jobs"] == [other.leases[0].job_id]
    [job] = await house.jobs()
    assert (job.status, job.worker_id) == (JobStatus.PROCESSING, "other")


async def test_a_lease_that_was_lost_is_not_renewed_again(
    house: House, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat learns that a job is another's, says so once, and lets go of it."""
    renewed: list[str] = []
    renew = house.store.renew

    async def noted(leases: Sequence[Lease], **options: object) -> set[JobId]:
        ours = await renew(leases, **options)
        renewed.extend(lease.job_id for lease in leases if lease.job_id not in ours)
        return ours

    house.provider.plan = gate
    await house.declare()
    await house.put(["a"])
    pool = house.pool(heartbeat=house.tick)
    await pool.start()
    await gate.reached.wait()
    [job] = await house.jobs()
    monkeypatch.setattr(house.store, "renew", noted)

    await house.store.rescue(dead=pool.workers)
    [lost] = await house.ear.hear(Event.LEASE_LOST)
    for _ in range(3):
        await house.beaten(pool)

    assert (lost["at"], lost["jobs"]) == ("renew", [job.id])
    assert renewed == [job.id]
    assert len(house.ear.of(Event.LEASE_LOST)) == 1
    gate.opened.set()
    await house.settled(completed=1)  # its late answer is taken


async def test_nothing_is_leased_beside_a_job_that_crashed(house: House, gate: Gate) -> None:
    """While a text that took two workers down is with the embedder, its worker holds nothing else."""
    await house.declare()
    await house.put(["deadly"])
    [space] = await house.store.spaces()
    ask = Ask(worker=WorkerId("dead"), spaces=[space.id], limit=1, span=HOUR)
    for _ in range(2):
        await house.store.lease(ask)
        await house.store.rescue(dead=[WorkerId("dead")])
    await house.store.put("notes", [NewRecord(id=RecordId(f"other {n}"), text=f"{n}") for n in range(5)])
    house.provider.plan = gate
    await house.pool(batch_size=1).start()
    await gate.reached.wait()

    await house.store.settle(())  # whatever was asked of the store before is answered now
    counts = await house.counts()

    assert house.provider.calls == [["deadly"]]
    assert (counts.processing, counts.pending) == (1, 5)
    gate.opened.set()
    await house.settled(completed=6)


async def test_a_job_that_crashed_gets_its_turn_beside_a_full_line(house: House, gate: Gate) -> None:
    """A worker that always has its next batch in hand lets go of that now and then, so that a deadly text is tried."""
    await house.declare()
    await house.put([f"text {n}" for n in range(60)])
    house.provider.plan = gate
    await house.pool(batch_size=1).start()
    await gate.reached.wait()
    await house.settled(processing=2)  # the next batch is in its hand
    await house.store.put("notes", [NewRecord(id=RecordId("x"), text="deadly", priority=Priority.URGENT)])
    [space] = await house.store.spaces()
    ask = Ask(worker=WorkerId("dead"), spaces=[space.id], limit=1, span=HOUR)
    for _ in range(2):
        await house.store.lease(ask)
        await house.store.rescue(dead=[WorkerId("dead")])

    gate.opened.set()

    await house.settled(completed=61)
    assert house.provider.calls.index(["deadly"]) < 40


async def test_the_heartbeat_renews_while_the_event_loop_is_blocked(house: House) -> None:
    """An embedder that blocks the loop, as a careless one does, keeps its lease through the heartbeat's thread."""
    seen: list[datetime] = []

    async def look() -> None:
        store = await SqliteStore.open(house.path, telemetry=Telemetry())
        try:
            async with asyncio.timeout(15):
                while len(set(seen)) < 3:
                    [job] = (await store.jobs(JobFilter())).items
                    seen.append(job.lease_until)
        finally:
            await store.close()

    async def plan(_: Sequence[str]) -> None:
        watcher = threading.Thread(target=lambda: asyncio.run(look()))
        watcher.start()
        watcher.join()

    await house.declare()
    await house.put(["a"])
    house.provider.plan = plan
    await house.pool(heartbeat=timedelta(milliseconds=30)).start()

    await house.settled(completed=1)
    assert len(set(seen)) >= 3
    assert seen == sorted(seen)
    assert house.ear.of(Event.LEASE_LOST) == []


async def test_one_text_in_many_records_is_paid_once(house: House) -> None:
    """Three hundred records with one text, in many batches of two workers, cost one call of one text."""
    await house.declare()
    await house.put(["the same"] * 300)
    await house.pool(workers=2, batch_size=20).start()

    await house.settled(completed=300)
    assert house.provider.calls == [["the same"]]


async def test_a_text_that_is_with_the_embedder_is_asked_for_once(
    house: House, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second worker with the same text finds no vector of it yet, and takes over the one that the first gets."""
    looked_up: asyncio.Queue[None] = asyncio.Queue()
    known = house.store.known

    async def noted(space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        found = await known(space, hashes)
        looked_up.put_nowait(None)
        return found

    monkeypatch.setattr(house.store, "known", noted)
    house.provider.plan = gate
    await house.declare()
    await house.store.put("notes", [NewRecord(id=RecordId("a"), text="same")])
    await house.pool(workers=2).start()
    await gate.reached.wait()
    await house.store.put("notes", [NewRecord(id=RecordId("b"), text="same")])
    for _ in "ab":
        await looked_up.get()
    await house.store.settle(())  # a way to the store and back: by then it would have asked

    gate.opened.set()

    await house.settled(completed=2)
    assert house.provider.calls == [["same"]]


async def test_a_text_that_is_with_the_embedder_is_waited_for(house: House, make_gate: type[Gate]) -> None:
    """A second worker with the same text waits for the first one's vector; if that fails, it asks for itself."""
    gate = make_gate()

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) == 1:
            await gate()
            raise RuntimeError("lost")

    await house.declare()
    await house.store.put("notes", [NewRecord(id=RecordId("a"), text="same")])
    house.provider.plan = plan
    await house.pool(workers=2).start()
    await gate.reached.wait()
    await house.store.put("notes", [NewRecord(id=RecordId("b"), text="same")])
    await house.settled(processing=2)

    gate.opened.set()

    await house.settled(completed=2)
    assert house.provider.calls == [["same"], ["same"]]


async def test_a_forced_job_pays_again(house: House) -> None:
    """Regenerate asks the provider although the vector is known."""
    await house.declare()
    await house.put(["a"])
    await house.pool().start()
    await house.settled(completed=1)

    await house.store.enqueue("notes", [RecordId("r0")], force=True)

    async def paid_twice() -> bool:
        return len(house.provider.calls) == 2 and (await house.counts()).completed == 1

    await house.ear.until(paid_twice)


async def test_a_forced_text_is_paid_again_though_it_is_on_its_way(house: House, gate: Gate) -> None:
    """Another worker has the same text with the embedder: whoever regenerates it does not take that answer over."""
    second = asyncio.Event()

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) > 1:
            second.set()
        await gate()

    await house.declare()
    await house.store.put("notes", [NewRecord(id=RecordId("a"), text="same")])
    house.provider.plan = plan
    await house.pool(workers=2).start()
    await gate.reached.wait()
    await house.store.pause()  # so that it is not leased before it is forced
    await house.store.put("notes", [NewRecord(id=RecordId("b"), text="same")])
    await house.store.enqueue("notes", [RecordId("b")], force=True)
    await house.store.resume()

    async with asyncio.timeout(20):
        await second.wait()

    gate.opened.set()
    await house.settled(completed=2)


async def test_large_batches_are_cut_to_what_the_embedder_takes(house: House, make_provider: type[Provider]) -> None:
    """A batch of thirty goes to an embedder that takes seven texts a call in five calls."""
    house.provider = make_provider(max_inputs=7)
    await house.declare()
    await house.put(THIRTY)
    await house.pool().start()

    await house.settled(completed=30)
    assert [len(call) for call in house.provider.calls] == [7, 7, 7, 7, 2]


async def test_nothing_is_leased_while_paused(house: House, make_gate: type[Gate]) -> None:
    """A pause during a slow batch sends the batch that was leased ahead back unstarted."""
    gate = make_gate()

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) == 1:
            await gate()
            house.skipped += 1  # a slow call: after those the worker looks whether it was paused

    await house.declare()
    await house.put(THIRTY)
    house.provider.plan = plan
    await house.pool(batch_size=10).start()
    await gate.reached.wait()
    await house.settled(processing=20)

    await house.store.pause()
    gate.opened.set()

    await house.settled(completed=10, pending=20, processing=0)
    assert len(house.provider.calls) == 1
