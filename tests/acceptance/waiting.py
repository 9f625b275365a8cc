"""Waiting for what must come true, with a deadline; never for time to pass."""

import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")
PATIENCE = 20.0  # seconds: far more than anything here needs on a busy machine
STEP = 0.02


def until(condition: Callable[[], T | Literal[False] | None], what: str = "", *, patience: float = PATIENCE) -> T:
    """Look again and again until an answer is true, and give it back; fail with the last one after the deadline."""
    deadline = time.monotonic() + patience
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:g} s: {what or condition}; last answer: {answer!r}")
        time.sleep(STEP)
    return answer


def throughout(condition: Callable[[], bool], end: Callable[[], object], what: str) -> None:
    """Check that a condition holds at every look until `end` comes true."""

    def over() -> bool:
        assert condition(), what
        return bool(end())

    until(over, what)
