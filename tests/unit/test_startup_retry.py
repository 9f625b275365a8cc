"""How long a process waits for its database at the start, and for what it does not wait."""

import pytest

from embedq.app.startup_retry import AT_START, StartupRetry, Timing
from embedq.errors import StoreError, StoreUnreachable, StoreUnusable
from embedq.telemetry import Event, Facts, Telemetry


class Clock:
    """Time that passes only while somebody sleeps, and what was told meanwhile."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.now = 0.0
        self.slept: list[float] = []
        self.told: list[tuple[Event, str, Facts]] = []
        telemetry = Telemetry(lambda *event: self.told.append(event))
        timing = Timing(sleep=self._sleep, monotonic=lambda: self.now, chance=lambda: 0.5)
        self.retry = StartupRetry(telemetry, AT_START, timing)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_what_cannot_be_reached_is_tried_again_for_a_bounded_time() -> None:
    """With growing pauses, half a minute in all; then it is raised."""
    clock, tries = Clock(), 0

    async def act() -> None:
        nonlocal tries
        tries += 1
        raise StoreUnreachable("nobody listens")

    with pytest.raises(StoreUnreachable):
        await clock.retry.run(act)

    assert sum(clock.slept) == pytest.approx(AT_START.total_seconds())
    assert clock.slept[:4] == sorted(clock.slept[:4])
    assert tries == len(clock.slept) + 1 > 5
    with pytest.raises(StoreUnreachable):  # the time is up for all that follows, too
        await clock.retry.run(act)
    assert tries == len(clock.slept) + 2


async def test_it_is_told_when_it_waits_and_when_that_is_over() -> None:
    """The log says what is wrong and for how long it will be tried; whoever asks knows that it had to wait."""
    clock, answers = Clock(), [StoreUnreachable("nobody listens"), None]

    async def act() -> str:
        if error := answers.pop(0):
            raise error
        return "open"

    assert not clock.retry.waited
    assert await clock.retry.run(act) == "open"

    [(trouble, level, facts), (over, _, _)] = clock.told
    assert (trouble, level, facts["act"], facts["triesForSeconds"]) == (Event.STORE_TROUBLE, "warning", "start", 30)
    assert (over, clock.retry.waited) == (Event.RECOVERED, True)


@pytest.mark.parametrize("error", [StoreUnusable("no such database"), StoreError("what is this?")])
async def test_a_refusal_is_not_waited_for(error: StoreError) -> None:
    """A wrong password or a missing database does not become right by waiting."""
    clock = Clock()

    async def act() -> None:
        raise error

    with pytest.raises(StoreError):
        await clock.retry.run(act)

    assert (clock.slept, clock.told) == ([], [])
