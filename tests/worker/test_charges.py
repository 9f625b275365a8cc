"""Who is charged when a call fails."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from embedq.errors import NotNow, Permanent, Transient, Unavailable
from embedq.model import Health, JobStatus, Reason, RetryPolicy, Vector
from embedq.telemetry import Event
from embedq.worker.embedders import PROBE

if TYPE_CHECKING:
    from conftest import Gate, House, Provider


HUNDRED = [f"text {n}" for n in range(100)]


async def test_halving_finds_the_bad_text_and_stores_the_others(house: House) -> None:
    """One text that the provider refuses among 100 becomes a dead letter; 99 are stored, none is charged."""

    async def plan(texts: Sequence[str]) -> None:
        if "text 37" in texts:
            raise Permanent("cannot embed this", code="400")

    await house.declare()
    await house.put(HUNDRED)
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(completed=99, failed=1)
    [dead] = await house.jobs(status=JobStatus.FAILED)
    assert (dead.record_id, dead.reason, dead.attempts) == ("r37", Reason.PERMANENT_ERROR, 1)
    assert {job.attempts for job in await house.jobs(status=JobStatus.COMPLETED)} == {0}
    assert len(house.provider.calls) <= 16
    assert house.slept == []


async def test_a_text_that_always_fails_is_found_after_backoff(house: House) -> None:
    """A transient failure of a batch waits, goes again in halves, and ends with one charged text."""

    async def plan(texts: Sequence[str]) -> None:
        if "text 0" in texts:
            raise Transient("boom", code="500")

    await house.declare(retry=RetryPolicy(base=timedelta(milliseconds=5), jitter=0.0, max_attempts=1))
    await house.put(HUNDRED)
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(completed=99, failed=1)
    [dead] = await house.jobs(status=JobStatus.FAILED)
    assert (dead.record_id, dead.reason) == ("r0", Reason.MAX_RETRIES_EXCEEDED)
    assert house.slept[0] == pytest.approx(0.005)
    assert house.ear.of(Event.EMBEDDER_BACKOFF) == []


async def test_many_bad_texts_do_not_pass_for_a_bad_embedder(house: House) -> None:
    """With a fifth of the texts bad, five failures in a row are met by a probe that goes well: all jobs end."""

    async def plan(texts: Sequence[str]) -> None:
        if any(text.endswith(("3", "7")) for text in texts):
            raise Permanent("bad", code="422")

    await house.declare()
    await house.put(HUNDRED)
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(completed=80, failed=20)
    assert house.ear.of(Event.EMBEDDER_BACKOFF) == []


async def test_failures_with_a_success_between_them_make_nobody_suspicious(house: House) -> None:
    """Ten bad texts, each after a good one: no probe is sent, since there are never five failures in a row."""

    async def plan(texts: Sequence[str]) -> None:
        if "bad" in texts[0]:
            raise Permanent("no", code="400")

    await house.declare()
    await house.put([f"{kind} {n}" for n in range(10) for kind in ("good", "bad")])
    house.provider.plan = plan
    await house.pool(batch_size=1).start()

    await house.settled(completed=10, failed=10)
    assert len(house.provider.calls) == 20
    assert [PROBE] not in house.provider.calls


async def test_a_job_fails_for_good_at_its_last_attempt(house: House) -> None:
    """A text alone in its calls is tried three times, each failure counted, then it is a dead letter."""

    async def plan(_: Sequence[str]) -> None:
        raise Transient("boom", code="503")

    await house.declare()
    await house.put(["alone"])
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(failed=1)
    [dead] = await house.jobs(status=JobStatus.FAILED)
    assert (dead.attempts, dead.reason, dead.error.code) == (3, Reason.MAX_RETRIES_EXCEEDED, "503")
    assert len(house.ear.of(Event.JOB_RETRY)) == 2
    assert len(house.provider.calls) == 3


async def test_a_failure_is_logged_with_its_context(house: House) -> None:
    """The line of a failed job names job, record, kind of error, attempt, worker, model, limiter, cache and stack."""

    async def plan(_: Sequence[str]) -> None:
        raise Permanent("no", code="400")

    await house.declare()
    await house.put(["secret words"])
    house.provider.plan = plan
    pool = house.pool()
    await pool.start()

    [facts] = await house.ear.hear(Event.JOB_FAILED)
    [job] = await house.jobs()
    assert facts["jobId"] == job.id
    assert facts["entityName"] == "r0"
    assert facts["errorType"] == "PERMANENT"
    assert (facts["attempt"], facts["maxAttempts"]) == (1, 3)
    assert facts["workerId"] in pool.workers
    assert facts["model"] == "fake"
    assert facts["cache"] == "miss"
    assert "Permanent" in facts["stack"]
    assert facts["textLength"] == len("secret words")
    assert {"rateLimiter", "error", "textHash"} <= facts.keys()
    assert "secret words" not in str(facts)


async def test_not_now_costs_no_attempt_and_keeps_the_batch_whole(house: House, make_provider: type[Provider]) -> None:
    """Two answers of 429 are waited out: every call carries the whole batch, and no job is charged."""
    house.provider = make_provider(remote=True)

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) <= 2:
            raise NotNow("slow down", retry_after=timedelta(milliseconds=30))

    await house.declare()
    await house.put(HUNDRED)
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(completed=100)
    assert [len(call) for call in house.provider.calls] == [100, 100, 100]
    assert {job.attempts for job in await house.jobs()} == {0}
    assert len(house.ear.of(Event.THROTTLED)) == 2


async def test_a_dead_provider_charges_nobody(house: House) -> None:
    """After five failures in a row and a probe, the embedder rests; when it is back, all jobs end uncharged."""
    down = True

    async def plan(_: Sequence[str]) -> None:
        if down:
            raise Transient("boom", code="503")

    await house.declare()
    await house.put(HUNDRED)
    house.provider.plan = plan
    pool = house.pool()
    await pool.start()
    await house.ear.hear(Event.EMBEDDER_BACKOFF)
    counts = await house.settled(pending=100)
    assert (counts.processing, counts.failed) == (0, 0)
    assert pool.report().health is Health.DEGRADED
    assert pool.report().error_patterns.keys() == {"503"}

    down = False

    await house.settled(completed=100)
    assert {job.attempts for job in await house.jobs()} == {0}
    assert pool.report().health is Health.HEALTHY


async def test_an_embedder_that_rests_is_probed_with_one_text_at_a_time(house: House) -> None:
    """While it rests, no record's text is sent: only probes, one after the other, with growing pauses."""
    up_after = 12

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) < up_after:
            raise Unavailable("connection refused")

    await house.declare()
    await house.put(HUNDRED)
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(completed=100)
    assert [len(call) for call in house.provider.calls] == [100] + [1] * (up_after - 1) + [100]
    assert house.slept[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


@pytest.mark.parametrize("fault", ["wrong count", "not finite"])
async def test_a_broken_answer_is_transient(house: House, fault: str) -> None:
    """A vector too few, or NaN among them, is never stored; the text is tried again."""

    async def plan(texts: Sequence[str]) -> Vector | None:
        if len(house.provider.calls) > 1:
            return None
        vectors = house.provider.vectors(texts)
        return vectors[:-1] if fault == "wrong count" else vectors * np.float32("nan")

    await house.declare()
    await house.put(["alone"])
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(completed=1)
    [job] = await house.jobs()
    assert job.attempts == 1


async def test_wrong_dimensions_are_the_embedders_fault(house: House) -> None:
    """Once a space has its dimensions, an answer of another size rests the embedder and charges nobody."""
    await house.declare()
    await house.put(["first"])
    await house.pool().start()
    await house.settled(completed=1)

    house.provider.size = 5
    await house.put(["first", "second"])

    await house.ear.hear(Event.EMBEDDER_BACKOFF)
    house.provider.size = 8
    await house.settled(completed=2)
    assert {job.attempts for job in await house.jobs()} == {0}


async def test_a_call_without_an_answer_ends_at_its_deadline(house: House, gate: Gate) -> None:
    """A provider that hangs costs the deadline, not the worker."""

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) == 1:
            await gate()

    await house.declare()
    await house.put(["alone"])
    house.provider.plan = plan
    await house.pool(attempt_deadline=timedelta(milliseconds=50)).start()

    await house.settled(completed=1)
    assert house.ear.of(Event.JOB_RETRY)[0]["code"] == "timeout"


async def test_health_degrades_after_five_failures_and_recovers(house: House) -> None:
    """DEGRADED and its end are told, with the number of failures and their codes."""

    async def plan(_: Sequence[str]) -> None:
        if len(house.provider.calls) <= 6:
            raise Transient("boom", code="502")

    await house.declare()
    await house.put(HUNDRED)
    house.provider.plan = plan
    await house.pool().start()

    await house.settled(completed=100)
    degraded, recovered = house.ear.of(Event.HEALTH_CHANGED)[:2]
    assert (degraded["health"], degraded["consecutiveFailures"]) == ("DEGRADED", 5)
    assert degraded["errorPatterns"] == {"502": 5}
    assert (recovered["health"], recovered["recoveredAfter"]) == ("HEALTHY", 6)
    assert house.ear.levels(Event.HEALTH_CHANGED)[:2] == ["warning", "info"]
