"""Seed 000: writing entities never waits for a provider, and gives each exactly one job."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from tests.acceptance.processes import Place

FAST = 0.1  # seconds
ROUNDS = 3  # the machine may be busy with something else in one of them


def test_fifty_and_more_entities_per_write_are_fast_for_concurrent_writers(place: Place) -> None:
    """Writers that put 60 entities each at the same time are done in under 100 ms (p95), with a dead-slow provider."""
    api = place.up(EMBEDQ_FAKE_FAULTS="hang=1000")

    def write(turn: int) -> float:
        records = [{"id": f"e{turn}-{number}", "text": f"entity {turn} {number}"} for number in range(60)]
        started = time.monotonic()
        api.put(*records)
        return time.monotonic() - started

    rounds = 0
    with ThreadPoolExecutor(3) as writers:
        while rounds < ROUNDS:
            spans = sorted(writers.map(write, range(30 * rounds, 30 * (rounds + 1))))
            rounds += 1
            if spans[int(len(spans) * 0.95)] < FAST:
                break

    assert spans[int(len(spans) * 0.95)] < FAST
    assert api.counts()["records"] == rounds * 30 * 60
    assert {record["embedding_status"] for record in api.http.get("/collections/notes/records").json()["records"]} == {
        "pending"
    }


def test_an_entity_has_exactly_one_job_and_is_embedded_exactly_once(place: Place) -> None:
    """Twenty writers of the same entity at the same time get one job between them, and one embedding is made."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=0.2")

    with ThreadPoolExecutor(8) as writers:
        receipts = list(writers.map(lambda _: api.put({"id": "e1", "text": "one entity"})[0], range(20)))
    api.embedded(1)

    [job] = api.jobs()
    assert {receipt["job_id"] for receipt in receipts} == {job["id"]}
    assert Counter(place.embedded_hashes()) == {sha256(b"one entity").hexdigest(): 1}


def test_a_forced_entity_gets_one_job_and_is_embedded_again(place: Place) -> None:
    """Forcing an entity whose vector is current queues exactly one job, and the provider is asked once more."""
    api = place.up()
    [receipt] = api.put({"id": "Alberto Rocco", "text": "a person"})
    api.embedded(1)

    forced = api.http.post("/collections/notes/records/Alberto%20Rocco/regenerate").json()
    assert api.act("drain", timeout=10)["status"] == "drained"

    assert forced["job_id"] == receipt["job_id"]
    assert len(api.jobs()) == 1
    assert Counter(place.embedded_hashes()) == {sha256(b"a person").hexdigest(): 2}
