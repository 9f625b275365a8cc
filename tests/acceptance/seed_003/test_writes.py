"""Seed 003: writes return at once, and everything is embedded in the background."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from tests.acceptance.processes import Api, Place

P95_SECONDS = 0.1
TWO_MINUTES = 120


def timed_post(api: Api, number: int) -> float:
    started = time.monotonic()
    answer = api.http.post("/collections/notes/records", json={"id": f"n{number}", "text": f"Note number {number}"})
    assert answer.status_code == 201
    assert answer.json()["embedding_status"] == "pending"
    return time.monotonic() - started


def p95(spans: list[float]) -> float:
    return sorted(spans)[int(len(spans) * 0.95)]


def test_a_write_takes_milliseconds_while_the_embedder_is_slow(place: Place) -> None:
    """Writes return in under 100 ms (p95) although each embedder call takes a second."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=1")

    spans = [timed_post(api, number) for number in range(200)]

    assert p95(spans) < P95_SECONDS
    api.embedded(200)


def test_the_first_record_of_a_fresh_database_is_embedded_within_a_second(place: Place) -> None:
    """A new user's first record is found by meaning a second after it was written."""
    api = place.up()
    started = time.monotonic()

    api.put({"id": "n1", "text": "Call Ada about the loom"})
    api.embedded(1)

    assert time.monotonic() - started < 1
    [hit] = api.http.post("/collections/notes/search", json={"query": "Call Ada about the loom"}).json()["hits"]
    assert hit["id"] == "n1"
    assert not hit["stale"]


def test_a_thousand_writes_are_all_embedded_in_under_two_minutes(place: Place) -> None:
    """1000 writes in rapid succession, against an embedder that takes its time, all end with a vector."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=0.2")
    started = time.monotonic()

    with ThreadPoolExecutor(4) as writers:
        spans = list(writers.map(lambda number: timed_post(api, number), range(1000)))
    api.embedded(1000, patience=TWO_MINUTES)

    assert time.monotonic() - started < TWO_MINUTES
    assert p95(spans) < P95_SECONDS


def test_the_local_model_embeds_what_was_written_and_finds_it_by_meaning(place: Place) -> None:
    """With the embedded default, 200 writes are embedded and a search by meaning finds the one that fits."""
    api = place.up(EMBEDQ_EMBEDDER="local")
    notes = [{"id": f"n{number}", "text": f"Invoice {number} was paid on time"} for number in range(199)]
    started = time.monotonic()

    api.put(*notes, {"id": "loom", "text": "Ada repairs the old weaving machine"})
    api.embedded(200, patience=TWO_MINUTES)

    assert time.monotonic() - started < TWO_MINUTES
    found = api.http.post("/collections/notes/search", json={"query": "fixing a loom", "mode": "semantic", "k": 1})
    assert [hit["id"] for hit in found.json()["hits"]] == ["loom"]


def test_no_text_is_embedded_twice_by_two_processes(place: Place) -> None:
    """Two processes share 500 records, and each text goes to the embedder exactly once."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=0.05", EMBEDQ_BATCH_SIZE=10)
    place.work(EMBEDQ_FAKE_FAULTS="latency=0.05", EMBEDQ_BATCH_SIZE=10)

    for first in range(0, 500, 50):
        api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(first, first + 50)))
    api.embedded(500)

    asked = Counter(place.embedded_hashes())
    assert asked == {sha256(f"text {number}".encode()).hexdigest(): 1 for number in range(500)}
    assert len({call["pid"] for call in place.calls()}) == 2


def test_an_edit_is_embedded_again_and_the_same_text_is_not(place: Place) -> None:
    """A changed text becomes pending and is embedded again; the same text again queues nothing."""
    api = place.up()
    api.put({"id": "n1", "text": "one"})
    api.embedded(1)
    before = api.record("n1")

    [same] = api.put({"id": "n1", "text": "one"})
    [edited] = api.put({"id": "n1", "text": "two"})

    assert same["embedding_status"] == "embedded"
    assert edited["embedding_status"] == "pending"
    api.embedded(1)
    assert api.record("n1")["vector"] != before["vector"]
    assert [call["count"] for call in place.calls()] == [1, 1]
