"""Troubles that repeat."""

from typing import Any

import pytest

from embedq.telemetry import Event, Facts, Telemetry, Trouble

HOUR = 3600


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heard() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def trouble(heard: list[tuple[str, dict[str, Any]]], clock: Clock) -> Trouble:
    def hear(event: Event, level: str, facts: Facts) -> None:
        del level
        heard.append((event.value, dict(facts)))

    return Trouble(Telemetry(hear), Event.UPKEEP_FAILED, monotonic=clock, duty="gather")


def test_a_failure_every_second_is_told_once_a_minute(
    trouble: Trouble, heard: list[tuple[str, dict[str, Any]]], clock: Clock
) -> None:
    """A database that is away for an hour fills no disk with lines; each line says how often it was tried."""
    for second in range(HOUR):
        clock.now = second
        trouble.met("away")

    assert [facts["times"] for _, facts in heard] == list(range(1, HOUR, 60))


def test_another_error_is_told_at_once(trouble: Trouble, heard: list[tuple[str, dict[str, Any]]]) -> None:
    """Two errors that take turns are told once each."""
    for error in ["away", "starting up"] * 10:
        trouble.met(error)

    assert [facts["error"] for _, facts in heard] == ["away", "starting up"]


def test_its_end_is_told_once(trouble: Trouble, heard: list[tuple[str, dict[str, Any]]], clock: Clock) -> None:
    """With how long it took; a new trouble is told at once, however soon it comes."""
    trouble.over()
    trouble.met("away")
    clock.now = 8.0
    trouble.met("away")
    trouble.over()
    trouble.over()
    trouble.met("away")

    assert [event for event, _ in heard] == ["upkeep_failed", "recovered", "upkeep_failed"]
    assert heard[1][1] == {"after": "upkeep_failed", "duty": "gather", "times": 2, "seconds": 8.0}
