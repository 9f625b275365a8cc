"""Seed 003: workers and processes that die lose nothing."""

import sqlite3
import time
from collections import Counter

from tests.acceptance.processes import Place
from tests.acceptance.waiting import until

SOON = 3.0  # seconds: a restart goes on at once, not after the lease of five minutes


def notes(count: int) -> list[dict[str, str]]:
    return [{"id": f"n{number}", "text": f"text {number}"} for number in range(count)]


def test_a_worker_killed_in_the_middle_of_a_batch_is_replaced_by_another(place: Place) -> None:
    """Kill -9 of a worker mid-batch: another that runs already finishes its jobs, and no crash counts as a failure."""
    api = place.serve()
    victim = place.work(EMBEDQ_FAKE_FAULTS="hang=100", EMBEDQ_WORKERS=1)
    api.put(*notes(50))
    api.counted(processing=50)
    other = place.work(EMBED_JOB_RECOVERY_INTERVAL=300)

    victim.kill()

    api.embedded(50)
    assert len(other.heard("rescued")["jobs"]) == 50
    assert {(job["attempts"], job["status"]) for job in api.jobs()} == {(0, "completed")}


def test_a_restart_after_kill_9_goes_on_at_once(place: Place) -> None:
    """The next start takes back what the killed process had leased, in a second or two and not after the lease."""
    killed = place.up(EMBEDQ_FAKE_FAULTS="hang=100")
    killed.put(*notes(50))
    killed.counted(processing=50)
    killed.kill()

    api = place.up()
    started = time.monotonic()
    api.embedded(50)

    assert time.monotonic() - started < SOON
    assert api.heard("rescued")["because"] == "the process is dead"


def test_a_restart_goes_on_with_what_was_pending(place: Place) -> None:
    """What a killed process had taken is embedded after the restart, and the boot line says how much there was."""
    killed = place.serve()
    killed.put(*notes(20))
    killed.kill()

    api = place.up()

    api.embedded(20)
    assert api.heard("started")["pending"] == 20
    assert Counter(place.embedded_hashes()).most_common(1)[0][1] == 1


def test_a_worker_that_dies_is_restarted_within_its_process(place: Place) -> None:
    """An error that nobody expected ends a worker; it is restarted with backoff, and its work goes on."""
    api = place.up(EMBEDQ_WORKERS=1)
    api.put(*notes(1))
    api.embedded(1)
    api.act("pause")
    api.put({"id": "later", "text": "later"})
    with sqlite3.connect(place.database, timeout=30) as database:
        [(policy,)] = database.execute("SELECT retry FROM embedq_collection").fetchall()
        database.execute("UPDATE embedq_collection SET retry = 'unreadable'")  # whoever leases stumbles over it
    api.act("resume")

    api.heard("runner_restarted", level="error")
    with database:
        database.execute("UPDATE embedq_collection SET retry = ?", (policy,))
    database.close()

    api.embedded(2)
    assert api.popen.poll() is None


def test_a_text_that_takes_five_workers_down_is_given_up_on(place: Place) -> None:
    """Crashes are counted apart from failures; at the fifth the job is a dead letter that says so, and others go on."""
    api = place.serve()
    [receipt] = api.put({"id": "deadly", "text": "deadly"})
    for crash in range(1, 6):
        victim = place.work(EMBEDQ_FAKE_FAULTS="hang=100", EMBEDQ_WORKERS=1)
        until(lambda crash=crash: len(place.calls()) == crash, "the text with the embedder")  # type: ignore[misc]  # a default binds the loop's value
        victim.kill()

    worker = place.work()
    api.put({"id": "harmless", "text": "harmless"})

    api.counted(completed=1, failed=1)
    job = api.job(receipt["job_id"])
    assert (job["reason"], job["crashes"], job["attempts"]) == ("crash_loop", 5, 0)
    assert worker.heard("rescued", level="error")["crashLoop"] == [receipt["job_id"]]
