"""How a worker's health follows from its calls."""

from datetime import UTC, datetime

from embedq.model import Health
from embedq.policy.health import MAX_PATTERNS, OTHER, Tally, Vitals, fail, halt, health_of, report, succeed, unhalt

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def failing(times: int, code: str = "503") -> Vitals:
    vitals = Vitals()
    for _ in range(times):
        vitals = fail(vitals, code)
    return vitals


def test_four_failures_in_a_row_are_healthy_and_five_degraded() -> None:
    """The fifth failure in a row is the one that degrades."""
    assert health_of(failing(4)) is Health.HEALTHY
    assert health_of(failing(5)) is Health.DEGRADED


def test_one_success_makes_it_healthy_again() -> None:
    """A success forgets the failures before it and is remembered with its moment."""
    vitals = succeed(failing(7), NOON)

    assert health_of(vitals) is Health.HEALTHY
    assert (vitals.consecutive_failures, vitals.error_patterns) == (0, {})
    assert vitals.last_success_at == NOON


def test_error_patterns_count_codes() -> None:
    """A degraded worker says which errors it met how often."""
    vitals = fail(fail(failing(3), "timeout"), "timeout")

    assert report(vitals, Tally()).error_patterns == {"503": 3, "timeout": 2}


def test_error_patterns_are_bounded() -> None:
    """A provider that invents codes does not fill the report."""
    vitals = Vitals()
    for n in range(100):
        vitals = fail(vitals, f"code-{n}")

    assert len(vitals.error_patterns) == MAX_PATTERNS + 1
    assert vitals.error_patterns[OTHER] == 100 - MAX_PATTERNS


def test_a_halted_embedder_is_critical_until_it_is_tried_again() -> None:
    """CRITICAL stays through the successes of other embedders and ends with the last halted one."""
    vitals = succeed(halt(halt(Vitals(), "openai:a"), "openai:b"), NOON)
    assert health_of(vitals) is Health.CRITICAL

    vitals = unhalt(vitals, "openai:a")
    assert health_of(vitals) is Health.CRITICAL
    assert health_of(unhalt(vitals, "openai:b")) is Health.HEALTHY


def test_halting_twice_names_the_embedder_once() -> None:
    """The report names each halted embedder once."""
    assert halt(halt(Vitals(), "openai:a"), "openai:a").halted == ("openai:a",)


def test_a_broken_database_is_critical() -> None:
    """A database that cannot be used needs a person."""
    assert health_of(Vitals(broken=True)) is Health.CRITICAL


def test_the_report_holds_the_workers_own_tally() -> None:
    """Counts of jobs are the worker's own, its health is that of its process."""
    told = report(failing(5), Tally(succeeded=3, failed=2))

    assert (told.health, told.succeeded, told.failed) == (Health.DEGRADED, 3, 2)
    assert told.consecutive_failures == 5
