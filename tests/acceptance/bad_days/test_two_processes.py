"""Bad days: two `up` on one file, and a process that is asked to leave in the middle of its work."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.acceptance.processes import Api, Place
from tests.acceptance.waiting import until


def hits(api: Api, text: str) -> set[str]:
    found = api.http.post("/collections/notes/search", json={"query": text, "mode": "semantic", "k": 1}).json()
    return {hit["id"] for hit in found["hits"] if hit["score"] > 0.999}


def test_two_up_on_one_file_share_the_work_and_find_each_others_records(place: Place) -> None:
    """Both take writes, both embed, each text once, and each finds what was written through the other."""
    settings = {"EMBEDQ_FAKE_FAULTS": "latency=0.05", "EMBEDQ_BATCH_SIZE": 5}
    pair = [place.up(**settings), place.up(**settings)]

    def write(number: int) -> None:
        pair[number % 2].put({"id": f"n{number}", "text": f"text {number}"})

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(200)))
    pair[0].embedded(200)

    assert pair[0].counts() == pair[1].counts()
    assert {call["pid"] for call in place.calls()} == {api.pid for api in pair}
    assert len(place.embedded_hashes()) == 200
    until(lambda: hits(pair[0], "text 1") == {"n1"}, "a hit on what was written through the second")
    until(lambda: hits(pair[1], "text 0") == {"n0"}, "a hit on what was written through the first")


def test_a_second_up_on_a_taken_port_is_refused(place: Place) -> None:
    """A port that is taken is refused with the setting's name, before any worker starts."""
    api = place.up()

    refused = place.run("up", EMBEDQ_PORT=api.url.rpartition(":")[2])

    assert refused.returncode == 1
    assert "EMBEDQ_PORT" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_sigterm_finishes_the_call_hands_back_the_rest_and_exits_0(place: Place) -> None:
    """A worker asked to leave settles what is with the embedder; another takes the rest at once."""
    api = place.serve()
    leaver = place.work(EMBEDQ_FAKE_FAULTS="latency=1", EMBEDQ_WORKERS=1, EMBEDQ_BATCH_SIZE=10)
    api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(50)))
    until(place.calls, "a batch with the embedder")

    assert leaver.leave() == 0

    counts = api.counts()
    assert (counts["processing"], counts["completed"]) == (0, 10)
    assert [line["event"] for line in leaver.log()][-1] == "stopped"
    assert api.status()["workers"]["workers"] == []
    place.work(EMBED_JOB_RECOVERY_INTERVAL=0)  # nothing needs a rescue
    api.embedded(50)
    assert len(place.embedded_hashes()) == 50
    assert {(job["attempts"], job["crashes"]) for job in api.jobs()} == {(0, 0)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_what_is_with_the_embedder_is_stored_before_the_process_leaves(place: Place, number: signal.Signals) -> None:
    """A process with API and workers, asked to leave by either signal, exits 0 and keeps what was paid for."""
    api = place.up(EMBEDQ_FAKE_FAULTS="latency=0.5")
    api.put({"id": "n1", "text": "one"})
    until(place.calls, "a text with the embedder")

    assert api.leave(number) == 0

    after = place.serve()
    assert after.record("n1")["embedding_status"] == "embedded"
