"""What an embedder takes at once and per minute, and what it says that it used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from embedq.embedding import Allowance, EmbedderLimits, Purpose, ToldLimits
from embedq.errors import Permanent, Transient
from embedq.model import Budget, NewRecord, RecordId
from embedq.telemetry import Event

if TYPE_CHECKING:
    from conftest import House, Provider

HOUR = timedelta(hours=1)


async def test_a_call_has_no_more_tokens_than_the_embedder_takes(house: House, make_provider: type[Provider]) -> None:
    """Texts of one to four words go to an embedder that takes five tokens a call, in their order."""
    house.provider = make_provider(limits=EmbedderLimits(inputs=100, tokens_per_call=5))
    await house.declare()
    await house.put(["one", "two of them", "three of these words", "a", "b", "six words are more than five"])
    await house.pool().start()

    await house.settled(completed=6)

    assert [len(call) for call in house.provider.calls] == [2, 2, 1, 1]


async def test_a_wrong_estimate_is_met_by_halving(house: House, make_provider: type[Provider]) -> None:
    """A provider that counts more tokens than we do refuses the call; all its texts are stored in smaller ones."""
    house.provider = make_provider(limits=EmbedderLimits(inputs=100, tokens_per_call=100))

    async def plan(texts: Sequence[str]) -> None:
        if len(texts) > 2:
            raise Permanent("This request has too many tokens.", code="400")

    house.provider.plan = plan
    await house.declare()
    await house.put([f"text {number}" for number in range(8)])
    await house.pool().start()

    counts = await house.settled(completed=8)

    assert counts.failed == 0


async def test_workers_embed_documents_and_tell_the_tokens(house: House, make_provider: type[Provider]) -> None:
    """The purpose of every call is a document, and the event has what the provider said it used."""
    house.provider = make_provider()
    house.provider.used = 42
    await house.declare()
    await house.put(["a text"])
    await house.pool().start()

    [told] = await house.ear.hear(Event.EMBEDDED)

    assert house.provider.purposes == [Purpose.DOCUMENT]
    assert (told["tokens"], told["purpose"], told["outcome"]) == (42, "document", "ok")


async def test_a_budget_of_tokens_binds_workers(house: House, make_provider: type[Provider]) -> None:
    """Of thirty texts of two tokens each, those go that the budget has room for; the others wait, uncharged."""
    house.provider = make_provider(remote=True)
    await house.declare()
    await house.put([f"text {number}" for number in range(30)])
    await house.pool(batch_size=10, budget=Budget(requests=None, tokens=45, interval=HOUR)).start()

    await house.ear.hear(Event.BUDGET_EMPTY)
    await house.settled(completed=20, pending=10, processing=0)

    assert [len(call) for call in house.provider.calls] == [10, 10]
    [seen] = (await house.store.budgets()).values()
    assert (seen["requests"], seen["tokens"]) == (2, 40)
    assert {job.attempts for job in await house.jobs()} == {0}


async def test_a_call_is_no_larger_than_the_whole_budget(house: House, make_provider: type[Provider]) -> None:
    """A batch of twenty tokens goes in calls of at most eight, so that each can be had."""
    house.provider = make_provider(remote=True)
    await house.declare()
    await house.put([f"text {number}" for number in range(10)])
    await house.pool(batch_size=10, budget=Budget(requests=None, tokens=8, interval=HOUR)).start()

    await house.ear.hear(Event.BUDGET_EMPTY)
    await house.settled(completed=4, pending=6, processing=0)

    assert [len(call) for call in house.provider.calls] == [4]


async def test_what_an_embedder_takes_per_minute_is_its_budget(house: House, make_provider: type[Provider]) -> None:
    """Nothing is set by hand, and the embedder says one request a minute: one goes."""
    house.provider = make_provider(remote=True, limits=EmbedderLimits(inputs=10, requests_per_minute=1))
    await house.declare()
    await house.put([f"text {number}" for number in range(30)])
    await house.pool(batch_size=10).start()

    await house.ear.hear(Event.BUDGET_EMPTY)
    await house.settled(completed=10, pending=20, processing=0)

    assert len(house.provider.calls) == 1


async def test_what_a_provider_told_is_in_the_log_of_a_failure(house: House, make_provider: type[Provider]) -> None:
    """After a good answer with its limits, a failure's line has them beside our own budget."""
    house.provider = make_provider(remote=True)
    house.provider.told = ToldLimits(requests=Allowance(limit=60, remaining=59))

    async def plan(texts: Sequence[str]) -> None:
        if "bad" in texts:
            raise Transient("stumbled", code="503")

    house.provider.plan = plan
    await house.declare()
    await house.pool(batch_size=1, budget=Budget(requests=100, tokens=5000, interval=HOUR)).start()
    await house.put(["good"])
    await house.settled(completed=1)
    await house.store.put("notes", [NewRecord(id=RecordId("b"), text="bad")])

    [first, *_] = await house.ear.hear(Event.JOB_RETRY)

    assert first["rateLimiter"]["budget"] == "100 and 5000 tokens/3600s"
    assert first["rateLimiter"]["told"]["requests"]["remaining"] == 59
