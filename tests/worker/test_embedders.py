"""Embedders that halt, and those that go on beside them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from embedq.errors import Critical, SettingsError, Unavailable
from embedq.model import EmbedderName, Health, NewRecord, RecordId
from embedq.telemetry import Event
from embedq.worker.embedders import REFRESH_EVERY

if TYPE_CHECKING:
    from conftest import Gate, House, Provider


BEAT = timedelta(milliseconds=40)


async def test_a_bad_key_halts_that_embedder_only(house: House, make_provider: type[Provider]) -> None:
    """The jobs of the halted embedder wait uncharged, the other embedder's are done, and health is CRITICAL."""
    good, bad = make_provider(), make_provider()

    async def plan(_: Sequence[str]) -> None:
        raise Critical("401: set OPENAI_API_KEY", code="401")

    bad.plan = plan
    await house.declare("fine", model="good")
    await house.declare("stuck", model="bad")
    await house.put(["a", "b"], "fine")
    await house.put(["c", "d"], "stuck")
    pool = house.pool(build=lambda name: bad if name.model == "bad" else good)
    await pool.start()

    await house.settled("fine", completed=2)
    [halted] = await house.ear.hear(Event.EMBEDDER_HALTED)
    counts = await house.settled("stuck", pending=2)
    assert counts.failed == 0
    assert len(bad.calls) == 1
    assert "OPENAI_API_KEY" in halted["error"]
    assert house.ear.levels(Event.EMBEDDER_HALTED) == ["critical"]
    assert pool.report().health is Health.CRITICAL
    assert list(pool.report().halted) == ["fake:bad"]
    assert pool.report().troubles == {"fake:bad": "401: set OPENAI_API_KEY"}


async def test_resume_tries_a_halted_embedder_again(house: House) -> None:
    """A resume, from whichever process, is noticed with the heartbeat: the embedder is probed and goes on."""
    mended = False

    async def plan(_: Sequence[str]) -> None:
        if not mended:
            raise Critical("403", code="403")

    await house.declare()
    await house.put(["a", "b"])
    house.provider.plan = plan
    pool = house.pool(heartbeat=BEAT)
    await pool.start()
    await house.ear.hear(Event.EMBEDDER_HALTED)

    mended = True
    await house.store.resume()

    await house.settled(completed=2)
    assert pool.report().health is Health.HEALTHY


async def test_revive_without_a_mend_halts_again(house: House) -> None:
    """Trying again what is still broken says so again, and charges nobody."""

    async def plan(_: Sequence[str]) -> None:
        raise Critical("403", code="403")

    await house.declare()
    await house.put(["a"])
    house.provider.plan = plan
    pool = house.pool()
    await pool.start()
    await house.ear.hear(Event.EMBEDDER_HALTED)

    pool.revive()

    await house.ear.hear(Event.EMBEDDER_HALTED, times=2)
    assert pool.report().health is Health.CRITICAL
    counts = await house.settled(pending=1)
    assert counts.failed == 0


async def test_an_embedder_that_cannot_be_built_names_its_setting(house: House, make_provider: type[Provider]) -> None:
    """A missing key halts the embedder it belongs to before any call; the others work."""

    def build(name: EmbedderName) -> Provider:
        if name.model == "keyless":
            raise SettingsError("OPENAI_API_KEY is not set: openai needs it")
        return make_provider()

    await house.declare("fine", model="good")
    await house.declare("stuck", model="keyless")
    await house.put(["c"], "stuck")
    await house.put(["a"], "fine")
    await house.pool(build=build).start()

    await house.settled("fine", completed=1)
    [halted] = await house.ear.hear(Event.EMBEDDER_HALTED)
    assert "OPENAI_API_KEY" in halted["error"]
    assert (await house.counts("stuck")).pending == 1


async def test_what_a_revived_embedder_says_is_told_again(house: House) -> None:
    """A probe that fails after a revival is as much news as the call before it."""
    mended = False

    async def plan(_: Sequence[str]) -> None:
        if not mended:
            raise Unavailable("no such model")

    await house.declare()
    await house.put(["a"])
    house.provider.plan = plan
    pool = house.pool()
    await pool.start()
    await house.ear.hear(Event.EMBEDDER_BACKOFF)
    calls = len(house.provider.calls)

    pool.revive()

    await house.ear.hear(Event.EMBEDDED, times=calls + 2)
    assert pool.report().health is Health.DEGRADED
    assert pool.report().troubles == {"fake": "no such model"}
    mended = True
    await house.settled(completed=1)
    assert (pool.report().health, pool.report().troubles) == (Health.HEALTHY, {})


async def test_an_embedder_that_cannot_be_built_yet_is_tried_again(house: House) -> None:
    """A model that is not there yet rests its embedder until it can be built."""
    tries = 0

    def build(_: EmbedderName) -> Provider:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise OSError("no such file: model.onnx")
        return house.provider

    await house.declare()
    await house.put(["a"])
    await house.pool(build=build).start()

    await house.settled(completed=1)
    assert tries == 4


async def test_a_space_declared_later_is_served(house: House) -> None:
    """A running worker finds new collections and their embedders by itself."""
    await house.declare("first", model="one")
    await house.put(["a"], "first")
    await house.pool().start()
    await house.settled("first", completed=1)

    await house.declare("second", model="two")
    await house.put(["b"], "second")

    await house.settled("second", completed=1)


async def begin_anew(house: House, changes: str) -> None:
    """Let a space be another than before, as after a schema was dropped and begun anew; its number stays the same."""
    with sqlite3.connect(house.path, timeout=30) as db:
        db.execute(f"UPDATE embedq_space SET {changes}")  # noqa: S608 the test's own words
    db.close()
    house.skipped += REFRESH_EVERY.total_seconds()
    await house.store.put("notes", [NewRecord(id=RecordId("later"), text="b")])


async def test_a_space_that_is_anothers_by_now_gets_its_own_embedder(
    house: House, gate: Gate, make_provider: type[Provider]
) -> None:
    """Its number came again with another model: the old one is not asked any more, and what it said charges nobody."""
    providers = {"one": make_provider(), "two": make_provider()}
    providers["one"].plan = gate
    await house.declare(model="one")
    await house.put(["a"])
    await house.pool(build=lambda name: providers[name.model]).start()
    await gate.reached.wait()

    await begin_anew(house, "model = 'two'")  # while the worker has a batch in hand, and looks for no spaces
    gate.opened.set()

    await house.settled(completed=2)
    assert providers["one"].calls == [["a"]]
    assert sorted(text for call in providers["two"].calls for text in call) == ["a", "b"]
    assert {(job.attempts, job.crashes) for job in await house.jobs()} == {(0, 0)}


async def test_a_space_that_has_forgotten_its_dimensions_learns_them_again(house: House) -> None:
    """It came again with the same model, which has not answered yet there."""
    await house.declare()
    await house.put(["a"])
    await house.pool().start()
    await house.settled(completed=1)

    await begin_anew(house, "dimensions = NULL")
    await house.settled(completed=2)  # perhaps leased before anybody looked for spaces again
    await house.store.put("notes", [NewRecord(id=RecordId("last"), text="c")])

    await house.settled(completed=3)
    assert [space.dimensions for space in await house.store.spaces()] == [house.provider.size]
