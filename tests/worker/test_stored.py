"""Every vector that is stored is counted once, whichever way it came, on every database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from embedq.errors import Permanent
from embedq.model import Ask, Done, Lease, RecordId, WorkerId
from embedq.telemetry import Event

if TYPE_CHECKING:
    from conftest import Gate, House


def stored(house: House) -> int:
    """Count the vectors that were told of."""
    return sum(facts["count"] for facts in house.ear.of(Event.STORED))


async def told(house: House, vectors: int) -> None:
    """Wait until so many vectors were told of, and no more."""

    async def enough() -> bool:
        return stored(house) >= vectors

    await house.ear.until(enough)
    assert stored(house) == vectors


async def test_vectors_of_a_text_that_many_records_share_are_counted(any_house: House) -> None:
    """Ten records with one text, in one batch, are ten vectors."""
    await any_house.declare()
    await any_house.put(["the same"] * 10)
    await any_house.pool().start()

    await any_house.settled(completed=10)

    await told(any_house, 10)
    assert all(0 <= facts["seconds"] < 60 for facts in any_house.ear.of(Event.STORED))


async def test_vectors_of_many_batches_are_counted(any_house: House) -> None:
    """Plain batches, with a few duplicates in each, and a text that was paid for before."""
    await any_house.declare()
    await any_house.put([f"text {number // 2}" for number in range(50)])
    await any_house.pool(workers=2, batch_size=7).start()
    await any_house.settled(completed=50)
    await any_house.store.put("notes", [])

    await any_house.declare("again")
    await any_house.put([f"text {number}" for number in range(10)], "again")

    await any_house.settled("again", completed=10)
    await told(any_house, 60)


async def test_a_bad_text_is_not_counted_with_its_neighbours(any_house: House) -> None:
    """Of a batch that is halved until the bad text is found, the others are counted."""

    async def plan(texts: Sequence[str]) -> None:
        if "bad" in texts:
            raise Permanent("400", code="400")

    any_house.provider.plan = plan
    await any_house.declare()
    await any_house.put(["a", "b", "bad", "c", "d", "e", "e"])
    await any_house.pool().start()

    await any_house.settled(completed=6, failed=1)

    await told(any_house, 6)


async def test_a_vector_of_an_old_text_is_not_counted(any_house: House, gate: Gate) -> None:
    """An edit while its job runs: only the vector that is stored counts, and so do its neighbours'."""

    async def plan(texts: Sequence[str]) -> None:
        if "old" in texts:
            await gate()

    any_house.provider.plan = plan
    await any_house.declare()
    await any_house.put(["old", "b", "c"])
    await any_house.pool().start()
    await gate.reached.wait()
    await any_house.put(["new"])
    gate.opened.set()

    await any_house.settled(completed=3, pending=0, processing=0)

    await told(any_house, 3)


async def test_a_current_vector_is_not_counted_again(any_house: House) -> None:
    """A job that finds its vector there stores none; one beside it that is forced does."""
    await any_house.declare()
    await any_house.put(["a", "b", "c"])
    pool = any_house.pool()
    await pool.start()
    await any_house.settled(completed=3)
    await pool.stop()
    await told(any_house, 3)

    await any_house.store.enqueue("notes", [RecordId("r0"), RecordId("r1")], force=True)
    await pool.start()

    await any_house.settled(completed=3, pending=0, processing=0)
    await told(any_house, 5)


async def test_a_late_vector_is_counted(any_house: House) -> None:
    """What is stored after its lease ran out counts as much, after as long as it was in the queue."""
    await any_house.declare()
    await any_house.put(["a", "b"])
    first, second = await lease(any_house)
    now = datetime.now(UTC)
    await any_house.store.rescue(now=now + timedelta(minutes=6))

    await any_house.store.settle([done(any_house, first), done(any_house, second)], now=now + timedelta(minutes=10))

    await told(any_house, 2)
    assert all(599 < facts["seconds"] < 700 for facts in any_house.ear.of(Event.STORED))


async def test_of_a_mixed_batch_only_new_vectors_are_counted(any_house: House) -> None:
    """A text that was changed and changed back has its vector; beside it, one that is new."""
    await any_house.declare()
    await any_house.put(["a"])
    await any_house.store.settle([done(any_house, one) for one in await lease(any_house)])
    await any_house.put(["b"])
    await any_house.put(["a", "new"])
    leases = await lease(any_house)
    assert sorted(one.current for one in leases) == [False, True]

    await any_house.store.settle([Done(one) if one.current else done(any_house, one) for one in leases])

    await told(any_house, 2)


async def lease(house: House) -> Sequence[Lease]:
    """Lease all jobs there are."""
    [space] = await house.store.spaces()
    await house.store.learn(space.id, house.provider.size)
    ask = Ask(worker=WorkerId("w"), spaces=[space.id], limit=10, span=timedelta(minutes=5))
    return (await house.store.lease(ask)).leases


def done(house: House, one: Lease) -> Done:
    """Embed what was leased."""
    return Done(one, house.provider.vectors([one.text or ""])[0])
