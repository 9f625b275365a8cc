"""Who is charged for a failed call, and who waits how long."""

from datetime import UTC, datetime, timedelta

import pytest

from embedq.errors import Critical, NotNow, Permanent, SettingsError, StoreUnusable, Transient, Unavailable
from embedq.model import (
    ContentHash,
    ErrorCategory,
    Failed,
    JobId,
    Lease,
    Reason,
    RecordId,
    Released,
    Retry,
    RetryPolicy,
    SpaceId,
)
from embedq.policy.attempts import (
    MAX_MESSAGE,
    MAX_STACK,
    PRESETS,
    Charge,
    Halt,
    Halve,
    Rest,
    Suspect,
    Throttle,
    Verdict,
    after,
    delay,
    fault_of,
    judge,
)

MIDDLE = 0.5  # the chance that adds no jitter
PLAIN = RetryPolicy()


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def lease(attempts: int = 0, retry: RetryPolicy = PLAIN) -> Lease:
    return Lease(
        job_id=JobId("7"),
        collection="notes",
        record_id=RecordId("n1"),
        space=SpaceId("fake:fake@0/1"),
        text="text",
        hash=ContentHash(b"h" * 32),
        current=False,
        forced=False,
        attempts=attempts,
        crashes=0,
        retry=retry,
        token=1,
        nonce=0,
        until=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("preset", "spans"),
    [
        ("default", [1, 2, 4, 8]),
        ("rules", [30, 60, 120, 240, 300, 300]),
        ("directory", [2, 4, 8, 16, 32]),
    ],
)
def test_delays_follow_the_documented_presets(preset: str, spans: list[int]) -> None:
    """Each preset waits base times factor to the number of failures, up to its cap."""
    assert [delay(PRESETS[preset], n, MIDDLE) for n in range(len(spans))] == [seconds(span) for span in spans]


def test_jitter_spreads_by_its_share_on_both_sides() -> None:
    """A jitter of 0.2 moves a delay by at most a fifth either way."""
    assert delay(PLAIN, 0, 0.0) == seconds(0.8)
    assert delay(PLAIN, 0, 0.999_999_999) == pytest.approx(seconds(1.2), abs=seconds(0.001))


def test_a_huge_number_of_failures_waits_the_cap() -> None:
    """A power too large for a float is the cap, no overflow."""
    assert delay(RetryPolicy(factor=1e300), 10_000, MIDDLE) == seconds(300)


def test_a_base_of_zero_never_waits() -> None:
    """No base, no wait, however often it failed."""
    assert delay(RetryPolicy(base=timedelta(0)), 50, MIDDLE) == timedelta(0)


@pytest.mark.parametrize(
    ("error", "texts", "streak", "verdict"),
    [
        (NotNow("wait", retry_after=seconds(9)), 100, 1, Throttle(seconds(9))),
        (NotNow("wait"), 1, 50, Throttle(None)),
        (Critical("bad key", code="401"), 1, 1, Halt()),
        (Critical("bad key", code="401"), 100, 9, Halt()),
        (SettingsError("OPENAI_API_KEY is not set"), 1, 1, Halt()),
        (Unavailable("refused"), 1, 1, Rest()),
        (Unavailable("refused"), 100, 1, Rest()),
        (Permanent("bad input"), 1, 1, Charge()),
        (Permanent("bad input"), 2, 1, Halve(timedelta(0))),
        (Permanent("bad input"), 1, 5, Suspect()),
        (Transient("503"), 1, 4, Charge()),
        (Transient("503"), 1, 5, Suspect()),
        (Transient("503"), 100, 1, Halve(seconds(1))),
        (Transient("503"), 50, 3, Halve(seconds(4))),
        (Transient("503"), 50, 5, Suspect()),
        (RuntimeError("what is this"), 1, 1, Charge()),
        (RuntimeError("what is this"), 2, 1, Halve(seconds(1))),
    ],
)
def test_a_failed_call_is_judged_by_its_error_size_and_streak(
    error: Exception, texts: int, streak: int, verdict: Verdict
) -> None:
    """Only a call of one text charges it; five failures in a row put the embedder in doubt."""
    assert judge(error, texts=texts, streak=streak, retry=PLAIN, chance=MIDDLE) == verdict


@pytest.mark.parametrize(
    ("error", "attempts", "kind", "reason"),
    [
        (Transient("503"), 0, Retry, None),
        (Transient("503"), 1, Retry, None),
        (Transient("503"), 2, Failed, Reason.MAX_RETRIES_EXCEEDED),
        (ValueError("unknown"), 0, Retry, None),
        (Permanent("bad"), 0, Failed, Reason.PERMANENT_ERROR),
        (NotNow("wait"), 2, Released, None),
        (Critical("key"), 2, Released, None),
        (Unavailable("gone"), 2, Released, None),
    ],
)
def test_an_attempt_ends_by_its_error(error: Exception, attempts: int, kind: type, reason: Reason | None) -> None:
    """Transient errors are retried up to the limit, permanent ones fail at once, the embedder's cost nothing."""
    outcome = after(error, lease(attempts), fault_of(error), MIDDLE)

    assert type(outcome) is kind
    assert getattr(outcome, "reason", None) == reason


def test_a_retry_waits_longer_each_time() -> None:
    """The wait grows with the failures behind the job: 1 s, then 2 s."""
    error = Transient("503")
    waits = [after(error, lease(n), fault_of(error), MIDDLE) for n in range(2)]

    assert [wait.after for wait in waits if isinstance(wait, Retry)] == [seconds(1), seconds(2)]


def test_a_refusal_keeps_the_providers_answer() -> None:
    """A job released for 429 says that the provider itself refused it, and for how long."""
    error = NotNow("slow down", retry_after=seconds(3))
    outcome = after(error, lease(), fault_of(error), MIDDLE)

    assert isinstance(outcome, Released)
    assert outcome.after == seconds(3)
    assert outcome.refused is not None
    assert outcome.refused.code == "429"


@pytest.mark.parametrize(
    ("error", "category", "code"),
    [
        (Transient("x", code="503"), ErrorCategory.TRANSIENT, "503"),
        (Transient("x"), ErrorCategory.TRANSIENT, "transient"),
        (Permanent("x", code="400"), ErrorCategory.PERMANENT, "400"),
        (Critical("x", code="401"), ErrorCategory.CRITICAL, "401"),
        (SettingsError("x"), ErrorCategory.CRITICAL, "settings"),
        (StoreUnusable("x"), ErrorCategory.CRITICAL, "store_unusable"),
        (KeyError("x"), ErrorCategory.TRANSIENT, "KeyError"),
    ],
)
def test_a_fault_keeps_category_and_code(error: Exception, category: ErrorCategory, code: str) -> None:
    """A dead letter tells retriable from permanent, with the provider's own code."""
    fault = fault_of(error)

    assert (fault.category, fault.code) == (category, code)


def raised(error: Exception, cause: Exception) -> Exception:
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def test_a_fault_is_bounded() -> None:
    """A huge message does not fill the database."""
    fault = fault_of(raised(Transient("y" * 100_000, code="500"), OSError("cause")))

    assert len(fault.message) == MAX_MESSAGE
    assert fault.stack is not None
    assert len(fault.stack) == MAX_STACK


def test_the_stack_names_the_cause() -> None:
    """The provider's own error stays visible below ours."""
    fault = fault_of(raised(Transient("timeout"), OSError("connection reset by peer")))

    assert fault.stack is not None
    assert "connection reset by peer" in fault.stack
