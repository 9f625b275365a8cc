"""What a worker does when its database is in trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedq.errors import StoreError, StoreFull, StoreUnusable, Transient
from embedq.model import Ask, Health, JobStatus, Leased
from embedq.telemetry import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conftest import House, Provider


def fail_first(house: House, act: str, errors: list[StoreError]) -> None:
    """Let a real store fail some times before it does what it is asked."""
    real: Callable[..., object] = getattr(house.store, act)

    async def failing(*args: object, **kwargs: object) -> object:
        if errors and args[0]:  # a store may lease by settling nothing
            raise errors.pop(0)
        return await real(*args, **kwargs)  # type: ignore[misc]  # every act of a store is awaited

    setattr(house.store, act, failing)


async def test_a_full_disk_costs_no_paid_vector(house: House) -> None:
    """Outcomes that cannot be settled are kept and settled later: nothing is embedded twice."""
    fail_first(house, "settle", [StoreFull("the disk is full")] * 5)
    await house.declare()
    await house.put(["a", "b"])
    await house.pool().start()

    await house.settled(completed=2)
    assert len(house.provider.calls) == 1
    assert [facts["tries"] for facts in house.ear.of(Event.STORE_TROUBLE)] == [1]
    assert [(facts["act"], facts["times"]) for facts in house.ear.of(Event.RECOVERED)] == [("settle", 5)]
    assert house.slept[:3] == [0.2, 0.4, 0.8]


async def test_a_lease_that_fails_is_asked_for_again(house: House) -> None:
    """A busy database makes a worker wait, with growing pauses, not die."""
    fail_first(house, "lease", [StoreError("busy")] * 3)
    await house.declare()
    await house.put(["a"])
    await house.pool().start()

    await house.settled(completed=1)
    assert house.slept[:3] == [1.0, 2.0, 4.0]
    assert house.ear.of(Event.RUNNER_RESTARTED) == []


async def test_a_database_that_was_away_for_long_is_soon_asked_again(house: House) -> None:
    """The pauses stay short, the trouble is told once and not at each try, and so is its end."""
    fail_first(house, "lease", [StoreError("away")] * 20)
    await house.declare()
    await house.put(["a"])
    await house.pool().start()

    await house.settled(completed=1)
    assert max(house.slept) == 5.0
    assert [facts["error"] for facts in house.ear.of(Event.STORE_TROUBLE)] == ["away"]
    assert [facts["times"] for facts in house.ear.of(Event.RECOVERED)] == [20]


async def test_a_look_up_that_fails_hands_the_batch_back(house: House) -> None:
    """Trouble between lease and call charges nobody and leaves nothing leased."""
    fail_first(house, "known", [StoreError("busy")])
    await house.declare()
    await house.put(["a"])
    await house.pool().start()

    await house.settled(completed=1)
    [job] = await house.jobs()
    assert (job.attempts, job.crashes) == (0, 0)


async def test_a_corrupt_database_halts_the_worker_until_a_person_acts(house: House) -> None:
    """Corruption is CRITICAL: no work is asked for any more; after a resume in this process it goes on."""
    fail_first(house, "lease", [StoreUnusable("the file is corrupt: restore it from a backup")])
    await house.declare()
    await house.put(["a"])
    pool = house.pool()
    await pool.start()
    await house.ear.hear(Event.HEALTH_CHANGED)
    assert pool.report().health is Health.CRITICAL
    assert "critical" in house.ear.levels(Event.STORE_TROUBLE)
    assert (await house.counts()).pending == 1

    pool.revive()

    await house.settled(completed=1)
    assert pool.report().health is Health.HEALTHY


async def test_a_halted_worker_can_still_be_stopped(house: House) -> None:
    """A stop does not wait for the person either."""
    fail_first(house, "lease", [StoreUnusable("not a database")])
    await house.declare()
    pool = house.pool()
    await pool.start()
    await house.ear.hear(Event.HEALTH_CHANGED)

    await pool.stop()

    assert not pool.is_running


async def test_a_heartbeat_that_fails_is_told_and_goes_on(house: House) -> None:
    """One beat that the database refuses ends nothing: the next one comes."""
    fail_first(house, "beat", [StoreError("busy")])
    pool = house.pool(heartbeat=house.tick)
    await pool.start()

    [told] = await house.ear.hear(Event.HEARTBEAT_FAILED)
    assert told["act"] == "beat"
    await house.beaten(pool)


async def test_what_an_embedder_quotes_reaches_neither_log_nor_dead_letter(house: House) -> None:
    """An error that holds the text is told and kept without it: in every event, in message and stack."""
    text = "Frau Meierhans, PIN 4711"

    async def plan(texts: Sequence[str]) -> None:
        raise ValueError(f"cannot embed {texts[0]!r}") from KeyError(texts[0])

    await house.declare()
    await house.put([text])
    house.provider.plan = plan
    await house.pool().start()
    await house.settled(failed=1)

    [dead] = await house.jobs(status=JobStatus.FAILED)
    assert dead.error is not None
    assert (dead.error.code, dead.error.message) == ("ValueError", "cannot embed '<text of 24 characters>'")
    told = repr(dead.error) + repr(house.ear.heard)
    assert not [word for word in ("Meierhans", "4711") if word in told]


async def test_a_database_that_is_away_at_the_first_answer_costs_no_paid_vector(house: House) -> None:
    """The first vectors of a space fix its dimensions: they wait until that can be stored, and are paid for once."""
    real, errors = house.store.learn, [StoreError("cannot be reached")] * 5

    async def learn(*args: Any) -> int:  # noqa: ANN401 as it is
        if errors:
            raise errors.pop()
        return await real(*args)

    house.store.learn = learn  # type: ignore[method-assign]
    await house.declare()
    await house.put(["a", "b"])
    await house.pool().start()

    await house.settled(completed=2)
    assert (len(house.provider.calls), errors) == (1, [])
    assert [facts["act"] for facts in house.ear.of(Event.STORE_TROUBLE)] == ["learn"]


async def test_what_is_paid_for_survives_a_prefetch_that_fails(house: House, make_provider: type[Provider]) -> None:
    """Half of a batch is embedded, the rest must wait: the half is settled, though the next batch was not leased."""
    house.provider = make_provider(max_inputs=2)
    failures = [Transient("try again")]

    async def plan(texts: Sequence[str]) -> None:
        if "text 2" in texts and failures:
            raise failures.pop()

    house.provider.plan = plan
    await house.declare()
    await house.put([f"text {n}" for n in range(8)])
    lease, cuts = house.store.lease, [StoreError("the connection was cut")]

    async def lose_a_prefetch(ask: Ask, **options: Any) -> Leased:  # noqa: ANN401 as it is
        if ask.prefetch and cuts:
            raise cuts.pop()
        return await lease(ask, **options)

    house.store.lease = lose_a_prefetch  # type: ignore[method-assign]
    await house.pool(batch_size=4, workers=1).start()

    await house.settled(completed=8)
    assert (failures, cuts) == ([], [])
    assert sum(texts.count("text 0") for texts in house.provider.calls) == 1
