"""Seed 004: what is transient is tried again by the directory's own policy; what is not, is not."""

from datetime import timedelta

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.provider import Provider
from tests.acceptance.seed_004.directory import BAKERY, start

import embedq
from embedq.model import RetryPolicy

SEED = RetryPolicy(base=timedelta(seconds=2), factor=2.0, cap=timedelta(seconds=300), jitter=0.2, max_attempts=5)
QUICK = {"DIRECTORY_RETRY_BASE_SECONDS": 0.05}


async def test_the_policy_is_the_collections_own(place: Place) -> None:
    """The application declares 5 attempts, 2 s, doubled up to 300 s, ±20 %; the waits are of that length."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="500=2", EMBEDQ_MAX_ATTEMPTS=1, EMBEDQ_RETRY_BASE_SECONDS=60)
    added = directory.add(**BAKERY)

    async with embedq.open(place.environment["EMBEDQ_URL"], embedder="fake") as eq:
        assert (await eq.collection("yellow-books")).declaration.retry == SEED
    directory.embedded(added)
    retries = directory.log("job_retry", jobId=added["job_id"])
    assert [retry["retryAfterSeconds"] for retry in retries] == [pytest.approx(2, rel=0.2), pytest.approx(4, rel=0.2)]


def test_transient_errors_are_tried_again(place: Place) -> None:
    """A server error, an unavailable service and a timeout cost an attempt each, and the fourth brings the vector."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="500=1,503=1,timeout=1", **QUICK)

    added = directory.add(**BAKERY)
    directory.embedded(added)

    retries = directory.log("job_retry", jobId=added["job_id"])
    assert [(retry["attempt"], retry["maxAttempts"]) for retry in retries] == [(1, 5), (2, 5), (3, 5)]
    assert directory.dead() == []


def test_a_rate_limit_is_no_failure(place: Place) -> None:
    """429 is waited out for as long as the provider asks; no attempt is charged."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="429=3:0.2", **QUICK)

    added = directory.add(**BAKERY)
    directory.embedded(added)

    assert len(place.calls()) == 4
    assert directory.log("job_retry") == []


def test_a_refused_text_is_not_tried_again(place: Place) -> None:
    """400 is a dead letter after one attempt, with all that is needed to find the cause."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="bad=bread", **QUICK)
    added = directory.add(**BAKERY)

    [letter] = directory.died(1)

    assert (letter["job_id"], letter["business_id"]) == (added["job_id"], added["id"])
    assert (letter["job_type"], letter["reason"], letter["attempts"]) == ("generate-embedding", "permanent_error", 1)
    assert (letter["error"]["category"], letter["error"]["code"]) == ("PERMANENT", "400")
    assert letter["error"]["message"]
    assert "Traceback" in letter["error"]["stack"]
    assert letter["last_attempt_at"] >= letter["first_attempt_at"]
    assert letter["entry"]["name"] == BAKERY["name"]
    assert len(place.calls()) == 1
    shown = directory.read(added)
    assert (shown["embedding_status"], shown["embedding_reason"]) == ("failed", "permanent_error")


def test_a_bad_key_charges_no_entry(place: Place) -> None:
    """401 halts the embedder and says which variable is wrong; once the key is good, the entry is embedded."""
    with Provider("401=1") as provider:
        directory = start(place, **provider.settings, EMBEDQ_HEARTBEAT_SECONDS=0.2)
        added = directory.add(**BAKERY)

        halted = directory.heard("embedder_halted", level="critical")

        assert "OPENAI_API_KEY" in halted["error"]
        assert directory.dead() == []
        assert place.run("resume").returncode == 0
        directory.embedded(added)
