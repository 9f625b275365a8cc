"""What follows from a failed call: which job is charged, and how long to wait."""

import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from embedq.errors import (
    Critical,
    EmbedderError,
    EmbedqError,
    NotNow,
    Permanent,
    SettingsError,
    StoreUnusable,
    Unavailable,
)
from embedq.model import (
    Done,
    ErrorCategory,
    Failed,
    Fault,
    Lease,
    Outcome,
    Reason,
    Released,
    Retry,
    RetryPolicy,
)

SUSPICIOUS_STREAK = 5  # failed calls in a row after which the embedder itself is suspected
MAX_MESSAGE = 2_000
MAX_STACK = 8_000

PRESETS: Mapping[str, RetryPolicy] = {
    "default": RetryPolicy(),
    "rules": RetryPolicy(base=timedelta(seconds=30), jitter=0.0, max_attempts=3),
    "directory": RetryPolicy(base=timedelta(seconds=2), jitter=0.2, max_attempts=5),
}
RESTING = RetryPolicy(cap=timedelta(seconds=60))  # the backoff of an embedder between probes
THROTTLING = RetryPolicy(cap=timedelta(seconds=60))  # the wait if a provider throttles without Retry-After


@dataclass(frozen=True, slots=True)
class Throttle:
    """The provider asks to wait: the whole batch is released, no job is charged."""

    after: timedelta | None  # None: it did not say how long


@dataclass(frozen=True, slots=True)
class Halve:
    """The call carried several texts: retry in halves."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class Charge:
    """The call carried one text: charge its job."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Too many failures in a row: a probe decides whether the texts or the embedder are at fault."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The embedder's own fault: it backs off as a whole, no job is charged."""


@dataclass(frozen=True, slots=True)
class Halt:
    """The embedder stops until an operator acts; no job is charged."""


Verdict = Throttle | Halve | Charge | Suspect | Rest | Halt  # closed: every `match` on it ends in assert_never


def judge(  # noqa: PLR0911 one return per kind of error, like a table
    error: Exception, *, texts: int, streak: int, retry: RetryPolicy, chance: float
) -> Verdict:
    """Decide what follows from a failed call of `texts` texts, the `streak`-th failure in a row."""
    match error:
        case NotNow():
            return Throttle(error.retry_after)
        case Critical() | SettingsError():
            return Halt()
        case Unavailable():
            return Rest()
        case _ if streak >= SUSPICIOUS_STREAK:
            return Suspect()
        case _ if texts == 1:
            return Charge()
        case Permanent():
            return Halve(timedelta(0))  # waiting would not help
        case _:
            return Halve(delay(retry, max(streak - 1, 0), chance))


def after(error: Exception, lease: Lease, fault: Fault, chance: float) -> Outcome:
    """Return the outcome of a job whose text alone was in the failed call. An unknown error is transient."""
    match error:
        case NotNow():
            return Released(lease, after=error.retry_after or timedelta(0), refused=fault)
        case Critical() | SettingsError() | Unavailable():
            return Released(lease)
        case Permanent():
            return Failed(lease, fault, Reason.PERMANENT_ERROR)
        case _ if lease.attempts + 1 >= lease.retry.max_attempts:
            return Failed(lease, fault, Reason.MAX_RETRIES_EXCEEDED)
        case _:
            return Retry(lease, fault, delay(lease.retry, lease.attempts, chance))


def delay(retry: RetryPolicy, attempts: int, chance: float) -> timedelta:
    """Return the wait after `attempts` earlier failures; `chance` in [0, 1) applies the jitter."""
    base, cap = retry.base.total_seconds(), retry.cap.total_seconds()
    span = cap if _reaches(base, retry.factor, attempts, cap) else base * retry.factor**attempts
    return timedelta(seconds=span * (1 + retry.jitter * (2 * chance - 1)))


def _reaches(base: float, factor: float, attempts: int, cap: float) -> bool:
    """Compare by logarithms: the power itself may be too large for a float."""
    if base <= 0 or factor <= 0 or cap <= 0:
        return base >= cap
    return math.log(base) + attempts * math.log(factor) >= math.log(cap)


def fault_of(error: Exception) -> Fault:
    """Convert an error to what is stored with a job. The embedder has redacted keys."""
    stack = "".join(traceback.format_exception(error))
    message = str(error) or type(error).__name__
    return Fault(_category(error), _code(error), message[:MAX_MESSAGE], stack[-MAX_STACK:])


def _category(error: Exception) -> ErrorCategory:
    match error:
        case Permanent():
            return ErrorCategory.PERMANENT
        case Critical() | SettingsError() | StoreUnusable():
            return ErrorCategory.CRITICAL
        case _:
            return ErrorCategory.TRANSIENT


def _code(error: Exception) -> str:
    match error:
        case EmbedderError():
            return error.provider_code
        case EmbedqError():
            return error.code
        case _:
            return type(error).__name__


def turn_of(outcome: Outcome) -> int:
    """Return the sort key of an outcome within one settle: a success counts before refusals (promise 6)."""
    return 0 if isinstance(outcome, Done) else 1
