"""Seed 001: jobs of workers that are gone come back by themselves."""

import sqlite3
import time

from tests.acceptance.processes import Api, Place, Process
from tests.acceptance.waiting import until

NEVER = 3_600_000  # milliseconds between rescues: only the one at boot happens in a test


def notes(count: int) -> list[dict[str, str]]:
    return [{"id": f"n{number}", "text": f"text {number}"} for number in range(count)]


def leased(place: Place, **settings: object) -> tuple[Api, Process, set[str]]:
    """Leave five jobs with a worker that never finishes them; answer with the jobs' ids too."""
    api = place.serve()
    worker = place.work(EMBEDQ_FAKE_FAULTS="hang=100", EMBEDQ_WORKERS=1, **settings)
    receipts = api.put(*notes(5))
    api.counted(processing=5)
    return api, worker, {receipt["job_id"] for receipt in receipts}


def test_expired_leases_are_rescued_at_boot(place: Place) -> None:
    """A worker that starts takes expired leases back before anything else, and the log names the jobs."""
    api, frozen, jobs = leased(place, EMBEDQ_LEASE_SECONDS=0.5)
    place.freeze(frozen)
    until(lambda: _expired(place), "leases that ran out")

    fresh = place.work(EMBED_JOB_RECOVERY_INTERVAL=NEVER)

    api.embedded(5)
    rescued = fresh.heard("rescued", level="warning")
    assert set(rescued["jobs"]) == jobs
    assert rescued["because"] == "the lease ran out"
    assert rescued["timestamp"]


def test_expired_leases_are_rescued_on_the_timer(place: Place) -> None:
    """A worker that runs already takes leases back that run out later, although nobody writes or restarts."""
    api, frozen, jobs = leased(place, EMBEDQ_LEASE_SECONDS=1)
    running = place.work(EMBED_JOB_RECOVERY_INTERVAL=200)
    place.freeze(frozen)

    api.embedded(5)

    assert set(running.heard("rescued")["jobs"]) == jobs
    assert {(job["attempts"], job["crashes"]) for job in api.jobs()} == {(0, 0)}


def test_a_failed_attempt_is_still_counted_after_a_rescue(place: Place) -> None:
    """Rescue keeps the count of attempts, so that a job cannot fail more often by crashing in between."""
    api = place.serve()
    worker = place.work(EMBEDQ_FAKE_FAULTS="500=1,hang=100", EMBEDQ_WORKERS=1, EMBEDQ_RETRY_BASE_SECONDS=0.05)
    [receipt] = api.put({"id": "n1", "text": "one"})
    until(lambda: len(place.calls()) == 2, "a second attempt")
    assert api.job(receipt["job_id"])["attempts"] == 1

    worker.kill()
    place.work()

    api.embedded(1)
    assert api.job(receipt["job_id"])["attempts"] == 1


def test_recovery_switched_off_leaves_a_stuck_job_alone_until_a_person_acts(place: Place) -> None:
    """EMBED_JOB_RECOVERY_INTERVAL=0: no rescue at boot or later, health says so, and requeue-stale still works."""
    before, killed, jobs = leased(place, EMBEDQ_LEASE_SECONDS=0.5)
    killed.kill()
    before.leave()
    until(lambda: _expired(place), "leases that ran out")
    api = place.up(EMBED_JOB_RECOVERY_INTERVAL=0)
    api.put({"id": "new", "text": "new"})

    until(lambda: api.record("new")["embedding_status"] == "embedded", "fresh work done meanwhile")

    assert {job["id"] for job in api.jobs(status="processing")} == jobs
    ready = api.http.get("/health/ready").json()
    assert ready["recovery"] == "off"
    assert any("requeue-stale" in note for note in ready["notes"])
    assert any("EMBED_JOB_RECOVERY_INTERVAL=0" in said for said in api.heard("started")["assumed"])
    assert set(api.act("requeue-stale")["jobs"]) == jobs
    api.embedded(6)


def test_errors_of_recovery_do_not_hurt_the_worker(place: Place) -> None:
    """While rescue fails, the worker embeds what is new; once rescue can work again, it does."""
    api, killed, jobs = leased(place)
    killed.kill()
    database = sqlite3.connect(place.database, timeout=30, isolation_level=None)
    database.execute(  # a line of the registry that cannot be read
        "INSERT INTO embedq_worker (name, host, boot, pid, born, version, embedder, started_at, seen_at, report)"
        " VALUES ('ghost', '', '', 0, '', '', '', ?1, ?1, 'unreadable')",
        (time.time_ns() // 1_000_000,),
    )
    worker = place.work(EMBED_JOB_RECOVERY_INTERVAL=200)

    worker.heard("rescue_failed", level="error")
    api.put({"id": "new", "text": "new"})
    until(lambda: api.record("new")["embedding_status"] == "embedded", "fresh work done meanwhile")
    assert worker.log("rescued") == []
    database.execute("DELETE FROM embedq_worker WHERE name = 'ghost'")
    database.close()

    assert set(worker.heard("rescued")["jobs"]) == jobs
    api.embedded(6)


def _expired(place: Place) -> bool:
    with sqlite3.connect(place.database, timeout=30) as database:
        (latest,) = database.execute("SELECT max(until) FROM embedq_lease").fetchone()
    database.close()
    return int(latest) < time.time_ns() // 1_000_000
