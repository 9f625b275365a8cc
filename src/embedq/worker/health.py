"""The health of a pool, reported when it changes."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from embedq.model import Health, HealthReport
from embedq.policy.health import Tally, Vitals, fail, halt, health_of, report, rest, succeed, unhalt, words_of
from embedq.telemetry import Event, Telemetry

_LEVELS = {Health.HEALTHY: "info", Health.DEGRADED: "warning", Health.CRITICAL: "critical"}


class PoolHealth:
    """Tracks the results of calls and reports changes of health. Any thread may read it."""

    def __init__(self, telemetry: Telemetry, now: Callable[[], datetime]) -> None:
        """Start healthy."""
        self._telemetry = telemetry
        self._now = now
        self._vitals = Vitals()

    @property
    def health(self) -> Health:
        """The current health."""
        return health_of(self._vitals)

    def report(self, tally: Tally) -> HealthReport:
        """Build a report of the pool's health with one worker's counts."""
        return report(self._vitals, tally)

    def succeed(self, embedder: str) -> None:
        """Record a successful call."""
        recovered = self._vitals.consecutive_failures > 0
        self._become(succeed(self._vitals, self._now(), embedder), recovered=recovered)

    def fail(self, embedder: str, code: str, error: Exception) -> None:
        """Record a failed call."""
        self._become(fail(self._vitals, code, embedder, words_of(error)))

    def halt(self, embedder: str, error: Exception) -> None:
        """Record that an embedder is halted, and why."""
        self._become(halt(self._vitals, embedder, words_of(error)))

    def rest(self, embedder: str, error: Exception) -> None:
        """Record that an embedder is resting, and why."""
        self._become(rest(self._vitals, embedder, words_of(error)))

    def unhalt(self, embedder: str) -> None:
        """Record that an embedder is neither halted nor resting."""
        self._become(unhalt(self._vitals, embedder))

    def set_broken(self, *, broken: bool) -> None:
        """Record whether the database can be used."""
        self._become(replace(self._vitals, broken=broken))

    def _become(self, vitals: Vitals, *, recovered: bool = False) -> None:
        before, self._vitals = self._vitals, vitals
        health = health_of(vitals)
        if recovered or health is not health_of(before):
            self._telemetry.emit(
                Event.HEALTH_CHANGED,
                level=_LEVELS[health],
                health=health.value,
                was=health_of(before).value,
                consecutiveFailures=vitals.consecutive_failures,
                recoveredAfter=before.consecutive_failures if recovered else None,
                errorPatterns=dict(vitals.error_patterns),
                halted=list(vitals.halted),
            )
