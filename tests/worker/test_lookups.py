"""What is known of texts is looked up while the batch before is with the embedder: still nothing is paid twice."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from tests.worker.conftest import Gate, House, Provider

from embedq.errors import NotNow, StoreError
from embedq.model import Ask, ContentHash, Done, NewRecord, RecordId, SpaceId, Vector, WorkerId
from embedq.telemetry import Event


async def test_a_text_that_a_colleague_stores_meanwhile_is_not_paid_again(house: House, gate: Gate) -> None:
    """One worker has looked up "b" and still waits for "a", while the other embeds and stores "b"."""

    async def plan(texts: Sequence[str]) -> None:
        if texts == ["a"]:
            await gate()

    await house.declare()
    await house.put(["a", "b", "b", "b"])
    house.provider.plan = plan
    await house.pool(workers=2, batch_size=1).start()
    await house.settled(completed=2)

    gate.opened.set()

    await house.settled(completed=4)
    assert sorted(house.provider.calls) == [["a"], ["b"]]


async def test_a_text_that_another_process_stores_during_a_slow_call_is_not_paid_again(
    house: House, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up that has become old is made again."""
    asked = _listen(house, monkeypatch)

    async def plan(texts: Sequence[str]) -> None:
        if texts == ["a"]:
            await gate()

    async def looked_ahead() -> bool:
        return len(asked) == 2

    await house.declare()
    await house.put(["a", "b"])
    house.provider.plan = plan
    await house.pool(batch_size=1).start()
    await house.settled(processing=2)
    await house.ear.until(looked_ahead)
    await _embed_elsewhere(house, "b")
    house.skipped += 1

    gate.opened.set()

    await house.settled(completed=3)
    assert house.provider.calls == [["a"]]


async def test_a_look_up_that_fails_is_made_again(house: House, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trouble while looking ahead troubles nobody: the batch's turn has not come yet."""
    look_up = house.store.known
    asked = 0

    async def known(space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        nonlocal asked
        asked += 1
        if asked == 2:
            gate.opened.set()
            raise StoreError("not just now")
        return await look_up(space, hashes)

    monkeypatch.setattr(house.store, "known", known)
    house.provider.plan = gate
    await house.declare()
    await house.put(["a", "b"])
    await house.pool(batch_size=1).start()

    await house.settled(completed=2)
    assert asked == 3
    assert house.ear.of(Event.STORE_TROUBLE) == []


def _listen(house: House, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[ContentHash]]:
    """Note each look-up that was answered."""
    look_up, asked = house.store.known, list[Sequence[ContentHash]]()

    async def known(space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        found = await look_up(space, hashes)
        asked.append(hashes)
        house.telemetry.emit(Event.REUSED, level="debug", count=len(found))
        return found

    monkeypatch.setattr(house.store, "known", known)
    return asked


async def _embed_elsewhere(house: House, text: str) -> None:
    """Embed a record with this text as another process does."""
    await house.store.put("notes", [NewRecord(id=RecordId("elsewhere"), text=text)])
    [space] = await house.store.spaces()
    ask = Ask(worker=WorkerId("other"), spaces=[space.id], limit=1, span=timedelta(minutes=1))
    [lease] = (await house.store.lease(ask)).leases
    await house.store.settle([Done(lease, house.provider.vectors([text])[0])])


async def test_a_hold_that_another_process_sets_during_a_slow_call_is_obeyed(
    house: House, gate: Gate, make_provider: type[Provider]
) -> None:
    """The batch that was leased ahead asks once more whether the provider may be asked."""
    house.provider = make_provider(remote=True)
    house.provider.plan = gate
    await house.declare()
    await house.put(["a", "b"])
    await house.pool(batch_size=1).start()
    await house.settled(processing=2)
    [space] = await house.store.spaces()
    await house.store.hold(space.id, timedelta(seconds=60))
    house.skipped += 1

    gate.opened.set()

    await house.ear.hear(Event.BUDGET_EMPTY)
    assert house.provider.calls == [["a"]]
    await house.store.resume()
    await house.settled(completed=2)


async def test_a_refusal_holds_a_colleague_that_was_told_to_go(
    house: House, gate: Gate, make_provider: type[Provider]
) -> None:
    """What one worker hears from the provider counts for the others of its process at once."""
    house.provider = make_provider(remote=True)

    async def plan(texts: Sequence[str]) -> None:
        if texts != ["a"]:
            raise NotNow("slow down", retry_after=timedelta(seconds=60))
        await gate()

    house.provider.plan = plan
    await house.declare()
    await house.put(["a", "b", "c", "d"])
    await house.pool(workers=2, batch_size=1).start()
    await house.ear.hear(Event.THROTTLED)

    gate.opened.set()

    await house.ear.hear(Event.BUDGET_EMPTY)
    assert len(house.provider.calls) == 2
