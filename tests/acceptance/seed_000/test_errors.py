"""Seed 000: errors are classified, and each kind has its own way on."""

import sqlite3
from hashlib import sha256
from itertools import pairwise

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.provider import KEY, Provider
from tests.acceptance.waiting import until

TEXT = "a text that must not stand in any log"
JITTER = 0.2


def test_a_transient_error_is_retried_after_one_two_and_four_seconds(place: Place) -> None:
    """Three failures cost three attempts and waits of 1, 2 and 4 seconds (±20 %); then the job is done."""
    api = place.up(EMBEDQ_FAKE_FAULTS="timeout=3", EMBEDQ_MAX_ATTEMPTS=4)

    [receipt] = api.put({"id": "n1", "text": TEXT})
    api.embedded(1)

    retries = api.log("job_retry", jobId=receipt["job_id"])
    assert [retry["attempt"] for retry in retries] == [1, 2, 3]
    assert {retry["errorType"] for retry in retries} == {"TRANSIENT"}
    assert [retry["retryAfterSeconds"] for retry in retries] == [pytest.approx(s, rel=JITTER) for s in (1, 2, 4)]
    moments = [call["at"] for call in place.calls()]
    waits = [after - before for before, after in pairwise(moments)]
    assert all(wait > least * (1 - JITTER) for wait, least in zip(waits, (1, 2, 4), strict=True))
    assert (api.job(receipt["job_id"])["status"], api.job(receipt["job_id"])["attempts"]) == ("completed", 3)


def test_the_third_failure_is_the_last(place: Place) -> None:
    """At the maximum of attempts the job is given up on with its reason, and nobody tries again."""
    api = place.up(EMBEDQ_FAKE_FAULTS="500=3", EMBEDQ_RETRY_BASE_SECONDS=0.05)

    [receipt] = api.put({"id": "n1", "text": TEXT})
    api.counted(failed=1)

    job = api.job(receipt["job_id"])
    assert (job["status"], job["attempts"], job["max_attempts"]) == ("failed", 3, 3)
    assert (job["reason"], job["error"]["category"], job["error"]["code"]) == (
        "max_retries_exceeded",
        "TRANSIENT",
        "500",
    )
    assert api.act("drain", timeout=5)["status"] == "drained"
    assert place.embedded_hashes() == [sha256(TEXT.encode()).hexdigest()] * 3
    assert api.record("n1")["embedding_status"] == "failed"


def test_a_permanent_error_fails_fast_with_its_whole_context(place: Place) -> None:
    """A refused text is a dead letter after one attempt; job and log have all that is needed to find the cause."""
    api = place.up(EMBEDQ_FAKE_FAULTS="bad=must not stand")

    [receipt] = api.put({"id": "n1", "text": TEXT})
    api.counted(failed=1)

    job = api.job(receipt["job_id"])
    assert (job["status"], job["attempts"], job["reason"]) == ("failed", 1, "permanent_error")
    assert (job["error"]["category"], job["error"]["code"]) == ("PERMANENT", "400")
    assert job["error"]["message"]
    assert "Traceback" in job["error"]["stack"]
    assert len(place.calls()) == 1
    line = api.heard("job_failed")
    assert (line["jobId"], line["entityName"], line["errorType"]) == (receipt["job_id"], "n1", "PERMANENT")
    assert (line["attempt"], line["maxAttempts"], line["model"], line["operation"]) == (1, 3, "fake@16", "embed")
    assert (line["cache"], line["textLength"]) == ("miss", len(TEXT))
    assert line["textHash"] == sha256(TEXT.encode()).hexdigest()
    assert line["workerId"] == job["worker_id"]
    assert line.keys() >= {"timestamp", "rateLimiter", "error", "stack"}
    assert TEXT not in api.errors


def test_one_bad_text_does_not_take_its_batch_with_it(place: Place) -> None:
    """In a batch of forty the one refused text is found; the others are stored."""
    api = place.up(EMBEDQ_FAKE_FAULTS="bad=POISON")

    api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(39)), {"id": "bad", "text": "POISON"})

    api.counted(completed=39, failed=1)
    assert [job["record_id"] for job in api.jobs(status="failed")] == ["bad"]


def test_a_critical_error_halts_the_embedder_until_a_person_resumes(place: Place) -> None:
    """A refused key: a CRITICAL line names the variable, health is CRITICAL, no job is charged; resume goes on."""
    with Provider("401=1") as provider:
        api = place.up(**provider.settings, EMBEDQ_HEARTBEAT_SECONDS=0.2)
        [receipt] = api.put({"id": "n1", "text": TEXT})

        halted = api.heard("embedder_halted", level="critical")
        ready = until(lambda: (r := api.http.get("/health/ready")).status_code == 503 and r.json(), "not ready")

        assert halted["errorType"] == "CRITICAL"
        assert "OPENAI_API_KEY" in halted["error"]
        assert ready["health"] == "CRITICAL"
        assert (api.job(receipt["job_id"])["status"], api.job(receipt["job_id"])["attempts"]) == ("pending", 0)
        assert len(provider.moments) == 1
        api.act("resume")
        api.embedded(1)
        until(lambda: api.http.get("/health/ready").status_code == 200, "ready again")
        assert KEY not in api.errors + api.output


def test_a_named_provider_without_its_key_is_refused_at_start(place: Place) -> None:
    """Without the key there is no silent fallback: the start is refused, and the variable is named."""
    refused = place.run("work", EMBEDQ_EMBEDDER="openai:some-model")

    assert refused.returncode == 1
    assert "OPENAI_API_KEY" in refused.stderr


def test_a_corrupt_database_halts_the_worker_and_says_so(place: Place) -> None:
    """Damage in the queue's own pages stops the worker with a CRITICAL line, and nothing more is tried."""
    api = place.serve()
    api.put({"id": "n1", "text": TEXT})
    api.leave()
    with sqlite3.connect(place.database) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'embedq_ready'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with place.database.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xaa" * size)

    worker = place.work()

    assert "damaged" in worker.heard("store_trouble", level="critical", act="halt")["error"]
    assert worker.heard("health_changed", health="CRITICAL")
    assert place.calls() == []
    assert worker.leave() == 0
