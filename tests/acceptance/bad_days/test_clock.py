"""Bad days: the machine's clock is set back by an hour while everything runs."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.waiting import until

HOUR = 3600


class Clock:
    """The clock that the processes of a test see."""

    def __init__(self, folder: Path) -> None:
        """Start with the right time."""
        self._file = folder / "clock"
        self._file.write_text("0")
        site = folder / "site"
        site.mkdir()
        shutil.copy(Path(__file__).with_name("sitecustomize_clock.py"), site / "sitecustomize.py")
        self.settings: dict[str, Any] = {"TEST_CLOCK_FILE": self._file, "PYTHONPATH": site}

    def move(self, seconds: int) -> None:
        """Set it forward, or back."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(seconds))
        fresh.rename(self._file)


@pytest.fixture
def clock(place: Place) -> Clock:
    return Clock(place.folder)


def test_a_retry_that_waits_does_not_wait_an_hour_longer(place: Place, clock: Clock) -> None:
    """A job due in half a minute, then the clock is set back an hour: it runs now, and so does what is new."""
    api = place.up(**clock.settings, EMBEDQ_FAKE_FAULTS="500=1", EMBEDQ_RETRY_BASE_SECONDS=30)
    api.put({"id": "n1", "text": "one"})
    api.heard("settled", retry=1)  # a retry that is stored with the clock set back waits by that clock, as it should

    clock.move(-HOUR)
    api.put({"id": "n2", "text": "two"})

    api.embedded(2)
    assert api.job(api.record("n1")["job_id"])["attempts"] == 1


def test_a_lease_of_a_frozen_worker_does_not_last_an_hour_longer(place: Place, clock: Clock) -> None:
    """A lease written before the clock was set back counts as past: another worker takes the job."""
    api = place.serve(**clock.settings)
    frozen = place.work(**clock.settings, EMBEDQ_FAKE_FAULTS="hang=100", EMBEDQ_LEASE_SECONDS=60)
    api.put({"id": "n1", "text": "one"})
    until(place.calls, "the text with the embedder")
    place.freeze(frozen)
    place.work(**clock.settings, EMBED_JOB_RECOVERY_INTERVAL=200)

    clock.move(-HOUR)

    api.embedded(1)


def test_a_worker_that_lives_keeps_its_jobs_when_the_clock_is_set_back(place: Place, clock: Clock) -> None:
    """A busy worker renews what it holds: with the clock set back its batch is stored, and no text is paid twice."""
    api = place.up(**clock.settings, EMBEDQ_FAKE_FAULTS="latency=1", EMBEDQ_HEARTBEAT_SECONDS=0.1)
    api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(50)))
    until(place.calls, "texts with the embedder")

    clock.move(-HOUR)

    api.embedded(50)
    assert len(place.embedded_hashes()) == 50
