"""How a worker's health follows from its calls."""

from datetime import UTC, datetime

from embedq.errors import Critical, Permanent
from embedq.model import Health, HealthReport, Process, Worker, WorkerId, WorkerInfo
from embedq.policy.health import (
    FORGOTTEN_HEARTBEATS,
    MAX_PATTERNS,
    MAX_WORDS,
    OTHER,
    Tally,
    Vitals,
    as_seen_here,
    fail,
    halt,
    health_of,
    lost,
    report,
    rest,
    succeed,
    unhalt,
    words_of,
)

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


def test_a_resting_embedder_degrades_until_it_answers() -> None:
    """Its words are told while it rests, through successes of others, and forgotten with its own."""
    vitals = succeed(rest(Vitals(), "openai:a", "no such model"), NOON, "local")
    assert health_of(vitals) is Health.DEGRADED
    assert report(vitals, Tally()).troubles == {"openai:a": "no such model"}

    vitals = succeed(vitals, NOON, "openai:a")

    assert health_of(vitals) is Health.HEALTHY
    assert report(vitals, Tally()).troubles == {}


def test_a_halted_embedder_keeps_its_words_until_it_is_tried_again() -> None:
    """A call that was in the air when it halted changes nothing."""
    vitals = succeed(halt(Vitals(), "openai:a", "check the key"), NOON, "openai:a")

    assert report(vitals, Tally()).troubles == {"openai:a": "check the key"}
    assert report(unhalt(vitals, "openai:a"), Tally()).troubles == {}


def test_a_rest_that_becomes_a_halt_is_one_trouble() -> None:
    """An embedder is in one list, with what it said last."""
    vitals = halt(rest(Vitals(), "openai:a", "503"), "openai:a", "401")

    assert (vitals.resting, vitals.halted) == ((), ("openai:a",))
    assert report(vitals, Tally()).troubles == {"openai:a": "401"}


def test_failures_are_told_from_the_fifth_on() -> None:
    """One bad text is no trouble of its embedder; five failures in a row are, in the words of the last."""
    vitals = Vitals()
    for number in range(4):
        vitals = fail(vitals, "503", "openai:a", f"failure {number}")
    assert report(vitals, Tally()).troubles == {}

    assert report(fail(vitals, "503", "openai:a", "failure 5"), Tally()).troubles == {"openai:a": "failure 5"}


def test_words_are_one_short_line() -> None:
    """However much a provider says."""
    assert words_of(Critical("401:\n  set   OPENAI_API_KEY")) == "401: set OPENAI_API_KEY"
    assert len(words_of(Critical("x" * 9999))) == MAX_WORDS


def test_an_error_that_is_not_ours_tells_its_kind_only() -> None:
    """What a library puts into its errors may be the text itself."""
    assert words_of(ValueError("the secret text")) == "ValueError"
    assert words_of(OSError("no such file: model.onnx")) == "no such file: model.onnx"


def test_a_field_that_is_refused_names_the_setting() -> None:
    """An embedder that refuses even a harmless text is set up wrongly."""
    assert "EMBEDQ_EMBEDDER" in words_of(Permanent("400: dimensions is not supported"))


def worker(*, missed: int = 0, pid: int = 7) -> Worker:
    process = Process(host="here", boot="1", pid=pid, born="9")
    info = WorkerInfo(id=WorkerId("w"), process=process, version="1", embedder="fake")
    return Worker(
        info=info, started_at=NOON, seen_at=NOON, missed_heartbeats=missed, alive=missed < 3, report=HealthReport()
    )


def test_a_worker_is_lost_after_three_missed_heartbeats_and_forgotten_in_the_end() -> None:
    """Two missed heartbeats may be chance; a worker that is long gone is nobody's trouble any more."""
    assert lost([worker(missed=2)]) == []
    assert len(lost([worker(missed=3)])) == 1
    assert len(lost([worker(missed=FORGOTTEN_HEARTBEATS - 1)])) == 1
    assert lost([worker(missed=FORGOTTEN_HEARTBEATS)]) == []


def test_a_dead_process_is_lost_at_once() -> None:
    """Its heartbeat may be a second old: who knows that the process is gone need not wait for three to be missed."""
    dead, living = as_seen_here([worker(pid=1), worker(pid=2)], lambda process: process.pid == 1)

    assert (dead.alive, living.alive) == (False, True)
    assert lost([dead, living]) == [dead]
