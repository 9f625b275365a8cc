"""Seed 003: pause, drain, resume, retry-failed and requeue-stale over HTTP."""

import pytest
from tests.acceptance.processes import Api, Place
from tests.acceptance.waiting import until


def notes(count: int) -> list[dict[str, str]]:
    return [{"id": f"n{number}", "text": f"text {number}"} for number in range(count)]


def test_a_paused_queue_leases_nothing_until_it_is_resumed_even_across_a_restart(place: Place) -> None:
    """Pause holds for every process and survives a restart; resume lets the work go on."""
    first = place.up()
    assert first.act("pause") == {"status": "paused"}
    first.put(*notes(10))
    first.kill()
    api = place.up()

    drained = api.act("drain", timeout=5)

    assert api.status()["paused"]
    assert (drained["status"], drained["waited_for"], drained["pending"]) == ("drained", "leased", 10)
    assert place.calls() == []
    assert api.act("resume") == {"status": "resumed"}
    api.embedded(10)


def test_drain_waits_until_the_queue_is_empty(place: Place) -> None:
    """Drain returns when every job is done, and says how long it took."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=0.5")
    api.put(*notes(30))

    drained = api.act("drain", timeout=30)

    assert (drained["status"], drained["waited_for"], drained["remaining"]) == ("drained", "all", 0)
    assert drained["elapsed"] > 0
    assert api.counts()["missing"] == 0


def test_a_drain_that_runs_out_of_time_says_what_is_left(place: Place) -> None:
    """Drain with a timeout answers with the jobs that remain."""
    api = place.up(EMBEDQ_FAKE_FAULTS="hang=100")
    api.put(*notes(30))

    drained = api.act("drain", timeout=0.2)

    assert (drained["status"], drained["remaining"]) == ("timeout", 30)


def test_drain_while_paused_ends_when_the_leased_jobs_are_done(place: Place) -> None:
    """Paused, drain waits for the leased jobs only, and says so and what is left."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=1", EMBEDQ_WORKERS=1, EMBEDQ_BATCH_SIZE=10)
    api.put(*notes(50))
    until(place.calls, "a call of the embedder")
    api.act("pause")

    drained = api.act("drain", timeout=30)

    counts = api.counts()
    assert (drained["status"], drained["waited_for"], drained["remaining"]) == ("drained", "leased", 0)
    assert (counts["processing"], counts["completed"] + counts["pending"]) == (0, 50)
    assert counts["completed"] >= 10
    assert drained["pending"] == counts["pending"] >= 20


@pytest.fixture
def with_dead_letters(place: Place) -> Place:
    """A database in which two of five records were given up on; nobody runs."""
    api = place.up(EMBEDQ_FAKE_FAULTS="bad=POISON")
    api.put(*notes(3), {"id": "bad1", "text": "POISON one"}, {"id": "bad2", "text": "POISON two"})
    api.counted(completed=3, failed=2)
    api.leave()
    return place


def test_failed_jobs_are_retried_on_demand(with_dead_letters: Place) -> None:
    """A restart alone leaves dead letters where they are; retry-failed embeds them."""
    api = with_dead_letters.up()
    assert api.act("drain", timeout=5)["status"] == "drained"
    assert api.counts()["failed"] == 2

    retried = api.act("retry-failed")

    assert retried["retried"] == {"total": 2, "by_collection": {"notes": 2}}
    assert api.embedded(5)["failed"] == 0


def test_failed_jobs_are_retried_at_startup_if_asked(with_dead_letters: Place) -> None:
    """With CHL_QUEUE_RETRY_FAILED_ON_STARTUP=1 dead letters go again without being asked."""
    api = with_dead_letters.up(CHL_QUEUE_RETRY_FAILED_ON_STARTUP=1)

    assert api.embedded(5)["failed"] == 0
    assert api.heard("revived")["count"] == 2


def stuck(place: Place) -> Api:
    """Leave ten jobs with a worker that is frozen while its lease is long."""
    api = place.serve()
    frozen = place.work(EMBEDQ_FAKE_FAULTS="hang=100", EMBEDQ_WORKERS=1)
    api.put(*notes(10))
    api.counted(processing=10)
    place.freeze(frozen)
    return api


def test_stale_jobs_are_requeued_on_demand(place: Place) -> None:
    """Requeue-stale takes back jobs that were not renewed for the threshold, names them, and another worker embeds."""
    api = stuck(place)
    names = {job["id"] for job in api.jobs()}
    assert api.act("requeue-stale", threshold_minutes=30)["requeued"]["total"] == 0

    requeued = api.act("requeue-stale", threshold_minutes=0)

    assert requeued["requeued"] == {"total": 10, "by_collection": {"notes": 10}}
    assert set(requeued["jobs"]) == names
    place.work()
    api.embedded(10)
