"""A worker's health, derived from its calls, and which workers are lost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from embedq.errors import EmbedqError, Permanent
from embedq.model import Health, HealthReport, Process, Worker

FORGOTTEN_HEARTBEATS = 100  # after so many a lost worker is no longer reported
DEGRADED_AFTER = 5  # failures in a row
MAX_PATTERNS = 20  # error codes that are counted separately
MAX_WORDS = 400  # characters of an embedder's error message
OTHER = "other"

IsDead = Callable[[Process], bool]  # what a host knows of its own processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The state of a worker's calls."""

    consecutive_failures: int = 0
    error_patterns: Mapping[str, int] = field(default_factory=dict)  # since the last success
    last_success_at: datetime | None = None
    halted: tuple[str, ...] = ()  # embedders that need an operator
    resting: tuple[str, ...] = ()  # embedders that back off as a whole
    said: Mapping[str, str] = field(default_factory=dict)  # by embedder: the error message of its last call
    broken: bool = False  # the database cannot be used


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How the jobs of one worker ended."""

    succeeded: int = 0
    failed: int = 0


def succeed(vitals: Vitals, at: datetime, embedder: str = "") -> Vitals:
    """Apply a successful call, which clears earlier failures."""
    well = vitals if embedder in vitals.halted else unhalt(vitals, embedder)
    return replace(well, consecutive_failures=0, error_patterns={}, last_success_at=at)


def fail(vitals: Vitals, code: str, embedder: str = "", words: str = "") -> Vitals:
    """Apply a failed call."""
    patterns = dict(vitals.error_patterns)
    key = code if code in patterns or len(patterns) < MAX_PATTERNS else OTHER
    patterns[key] = patterns.get(key, 0) + 1
    failures = vitals.consecutive_failures + 1
    return replace(vitals, consecutive_failures=failures, error_patterns=patterns, said=_with(vitals, embedder, words))


def halt(vitals: Vitals, embedder: str, words: str = "") -> Vitals:
    """Mark an embedder as halted."""
    vitals = unhalt(vitals, embedder)
    return replace(vitals, halted=(*vitals.halted, embedder), said=_with(vitals, embedder, words))


def rest(vitals: Vitals, embedder: str, words: str) -> Vitals:
    """Mark an embedder as resting."""
    vitals = unhalt(vitals, embedder)
    return replace(vitals, resting=(*vitals.resting, embedder), said=_with(vitals, embedder, words))


def unhalt(vitals: Vitals, embedder: str) -> Vitals:
    """Mark an embedder as neither halted nor resting."""
    halted, resting = ([name for name in names if name != embedder] for names in (vitals.halted, vitals.resting))
    return replace(vitals, halted=tuple(halted), resting=tuple(resting), said=_without(vitals.said, embedder))


def health_of(vitals: Vitals) -> Health:
    """Return the health: CRITICAL needs an operator, DEGRADED may recover by itself."""
    if vitals.broken or vitals.halted:
        return Health.CRITICAL
    if vitals.resting or vitals.consecutive_failures >= DEGRADED_AFTER:
        return Health.DEGRADED
    return Health.HEALTHY


def at_worst_degraded(given: HealthReport) -> HealthReport:
    """Cap an external worker's report at DEGRADED, so that it cannot make the service unready."""
    return replace(given, health=Health.DEGRADED) if given.health is Health.CRITICAL else given


def report(vitals: Vitals, tally: Tally) -> HealthReport:
    """Build the report that a worker sends with its heartbeat."""
    failing = vitals.consecutive_failures >= DEGRADED_AFTER
    return HealthReport(
        health=health_of(vitals),
        consecutive_failures=vitals.consecutive_failures,
        succeeded=tally.succeeded,
        failed=tally.failed,
        last_success_at=vitals.last_success_at,
        error_patterns=dict(vitals.error_patterns),
        halted=vitals.halted,
        troubles={
            name: said for name, said in vitals.said.items() if failing or name in vitals.halted + vitals.resting
        },
    )


def words_of(error: Exception) -> str:
    """Describe in one line why a call failed; of a foreign error only the type, since its message may hold texts."""
    known = isinstance(error, EmbedqError | OSError) and str(error)
    words = " ".join((str(error) if known else type(error).__name__).split())[:MAX_WORDS]
    if isinstance(error, Permanent):  # a harmless text was refused: a setting may be wrong
        return (
            f"{words.rstrip('.')}. Check the embedder's name and dimensions: EMBEDQ_EMBEDDER, or the collection's own."
        )
    return words


def as_seen_here(workers: Sequence[Worker], is_dead: IsDead | None) -> Sequence[Worker]:
    """Mark workers as lost whose process is known to be dead, even if their last heartbeat is recent."""
    if is_dead is None:
        return workers
    return [replace(worker, alive=worker.alive and not is_dead(worker.info.process)) for worker in workers]


def lost(workers: Sequence[Worker]) -> list[Worker]:
    """Select the workers that disappeared: no heartbeat for three intervals, or known to be dead."""
    return [worker for worker in workers if not worker.alive and worker.missed_heartbeats < FORGOTTEN_HEARTBEATS]


def _with(vitals: Vitals, embedder: str, words: str) -> Mapping[str, str]:
    said = {**vitals.said, embedder: words} if embedder and words else vitals.said
    return dict(list(said.items())[-MAX_PATTERNS:])


def _without(said: Mapping[str, str], embedder: str) -> Mapping[str, str]:
    return {name: words for name, words in said.items() if name != embedder}
