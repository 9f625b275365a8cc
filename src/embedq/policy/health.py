"""How a worker fares, told from what happened to its calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from embedq.model import Health, HealthReport

DEGRADED_AFTER = 5  # failures in a row
MAX_PATTERNS = 20  # error codes that are told apart
OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What is known of a worker's calls."""

    consecutive_failures: int = 0
    error_patterns: Mapping[str, int] = field(default_factory=dict)  # since the last success
    last_success_at: datetime | None = None
    halted: tuple[str, ...] = ()  # embedders that wait for a person
    broken: bool = False  # the database cannot be used


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How the jobs of one worker ended."""

    succeeded: int = 0
    failed: int = 0


def succeed(vitals: Vitals, at: datetime) -> Vitals:
    """Take in a call that went well: what failed before is forgotten."""
    return replace(vitals, consecutive_failures=0, error_patterns={}, last_success_at=at)


def fail(vitals: Vitals, code: str) -> Vitals:
    """Take in a call that failed."""
    patterns = dict(vitals.error_patterns)
    key = code if code in patterns or len(patterns) < MAX_PATTERNS else OTHER
    patterns[key] = patterns.get(key, 0) + 1
    return replace(vitals, consecutive_failures=vitals.consecutive_failures + 1, error_patterns=patterns)


def halt(vitals: Vitals, embedder: str) -> Vitals:
    """Take in that an embedder waits for a person."""
    return vitals if embedder in vitals.halted else replace(vitals, halted=(*vitals.halted, embedder))


def unhalt(vitals: Vitals, embedder: str) -> Vitals:
    """Take in that an embedder is tried again."""
    return replace(vitals, halted=tuple(name for name in vitals.halted if name != embedder))


def health_of(vitals: Vitals) -> Health:
    """Name the state: CRITICAL needs a person, DEGRADED may mend itself."""
    if vitals.broken or vitals.halted:
        return Health.CRITICAL
    if vitals.consecutive_failures >= DEGRADED_AFTER:
        return Health.DEGRADED
    return Health.HEALTHY


def report(vitals: Vitals, tally: Tally) -> HealthReport:
    """Write down what a worker tells with its heartbeat."""
    return HealthReport(
        health=health_of(vitals),
        consecutive_failures=vitals.consecutive_failures,
        succeeded=tally.succeeded,
        failed=tally.failed,
        last_success_at=vitals.last_success_at,
        error_patterns=dict(vitals.error_patterns),
        halted=vitals.halted,
    )
