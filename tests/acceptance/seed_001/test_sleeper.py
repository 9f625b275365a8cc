"""Seed 001: recovery and heartbeat race, and a worker that wakes up with old answers changes nothing."""

from hashlib import sha256

from tests.acceptance.processes import Place
from tests.acceptance.waiting import until

from embedq.embedding import Purpose
from embedq.model import EmbedderName
from embedq.testing.faults import FakeEmbedder

LEASE = {"EMBEDQ_LEASE_SECONDS": 1, "EMBEDQ_HEARTBEAT_SECONDS": 0.2}


async def vector_of(text: str) -> list[float]:
    embedder = FakeEmbedder(EmbedderName(provider="fake", model="", dimensions=16))
    return [float(value) for value in (await embedder.embed([text], Purpose.QUERY)).vectors[0]]


async def test_a_worker_that_slept_past_its_lease_changes_nothing(place: Place) -> None:
    """It wakes with the vector of an old text after another finished the new one: record and job stay the other's."""
    api = place.serve()
    sleeper = place.work(**LEASE, EMBEDQ_FAKE_FAULTS="latency=1", EMBEDQ_WORKERS=1)
    [receipt] = api.put({"id": "n1", "text": "old text"})
    until(place.calls, "the old text with the embedder")
    place.freeze(sleeper)
    api.put({"id": "n1", "text": "new text"})
    place.work(EMBED_JOB_RECOVERY_INTERVAL=100)
    api.embedded(1)
    before, job = api.record("n1"), api.job(receipt["job_id"])

    sleeper.go_on()
    sleeper.heard("lease_lost")
    sleeper.heard("settled")

    assert place.embedded_hashes() == [sha256(text).hexdigest() for text in (b"old text", b"new text")]
    assert before["vector"] == await vector_of("new text")
    assert api.record("n1") == before
    assert api.job(receipt["job_id"]) == job
    assert job["worker_id"] != sleeper.log("settled")[0]["workerId"]


def test_a_late_answer_is_taken_if_nobody_leased_the_job_since(place: Place) -> None:
    """A paid embedding is not thrown away: rescued but not leased again, the job takes its late result."""
    api = place.serve()
    sleeper = place.work(**LEASE, EMBEDQ_FAKE_FAULTS="latency=1", EMBEDQ_WORKERS=1)
    api.put({"id": "n1", "text": "one"})
    until(place.calls, "the text with the embedder")
    place.freeze(sleeper)
    api.act("pause")
    assert api.act("requeue-stale", threshold_minutes=0)["requeued"]["total"] == 1

    sleeper.go_on()

    api.embedded(1)
    assert len(place.calls()) == 1


def test_rescue_never_takes_a_job_from_a_worker_that_renews_it(place: Place) -> None:
    """Rescue at every turn of the hand against an owner that renews: the owner keeps all its jobs to the end."""
    api = place.serve()
    owner = place.work(
        EMBEDQ_LEASE_SECONDS=0.6, EMBEDQ_HEARTBEAT_SECONDS=0.1, EMBEDQ_FAKE_FAULTS="latency=2", EMBEDQ_WORKERS=2
    )
    rival = place.work(EMBED_JOB_RECOVERY_INTERVAL=10, EMBEDQ_WORKERS=1)
    place.freeze(rival)  # so that the owner leases everything
    api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(100)))
    api.counted(processing=100)
    rival.go_on()

    api.embedded(100)

    assert {call["pid"] for call in place.calls()} == {owner.pid}
    assert owner.log("lease_lost") == rival.log("rescued") == []
