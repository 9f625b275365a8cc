"""Bad days: SIGKILL in the middle of everything, again and again."""

import random
import sqlite3
import threading
import time
from collections import defaultdict

import httpx
from tests.acceptance.processes import Api, Place, Process
from tests.acceptance.waiting import until

from embedq.model import EmbedderName
from embedq.testing.faults import FakeEmbedder

SECONDS = 12
IDS = 300
WORK = {"EMBEDQ_FAKE_FAULTS": "latency=0.03", "EMBEDQ_BATCH_SIZE": 20, "EMBED_JOB_RECOVERY_INTERVAL": 500}


class Client:
    """Writes and edits through whatever API there is, and remembers what was acknowledged and what may be."""

    def __init__(self, api: Api) -> None:
        """Write through this API first."""
        self.api = api
        self.acknowledged: dict[str, str] = {}
        self.possible: defaultdict[str, set[str]] = defaultdict(set)  # sent since, and never answered
        self.count = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def finish(self) -> None:
        """Write no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            self._write(f"n{number % IDS}", f"text number {number}")

    def _write(self, name: str, text: str) -> None:
        try:
            answer = self.api.http.post("/collections/notes/records", json={"id": name, "text": text})
        except httpx.TransportError:
            self.possible[name].add(text)
            return
        assert answer.status_code == 201, answer.text
        self.acknowledged[name] = text
        self.possible.pop(name, None)
        self.count += 1


def kill_at_random(place: Place, client: Client, workers: list[Process]) -> int:
    """Kill one of API and workers after each few writes, and start it anew; answer with how often."""
    chance, kills = random.Random(7), 0  # noqa: S311 nothing secret
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        goal = client.count + chance.randrange(5, 60)
        until(lambda goal=goal: client.count >= goal, "more writes")  # type: ignore[misc]  # a default binds the loop's value
        victim = chance.randrange(len(workers) + 1)
        if victim == len(workers):
            client.api.kill()
            client.api = place.serve()
        else:
            workers[victim].kill()
            workers[victim] = place.work(**WORK)
        kills += 1
    return kills


async def test_nothing_is_lost_whoever_is_killed_whenever(place: Place) -> None:
    """Workers and API are killed at random under load; every acknowledged text gets its own vector, and all adds up."""
    client = Client(place.serve())
    workers = [place.work(**WORK), place.work(**WORK)]

    try:
        kills = kill_at_random(place, client, workers)
    finally:
        client.finish()
    api = client.api
    api.embedded(api.counts()["records"], patience=30)

    assert kills >= 3
    texts = {name: api.record(name) for name in client.acknowledged}
    for name, record in texts.items():
        assert record["text"] in {client.acknowledged[name], *client.possible[name]}
        assert record["embedding_status"] == "embedded"
    await _check_vectors(texts)
    counts = api.counts()
    assert (counts["failed"], counts["cancelled"], counts["completed"]) == (0, 0, counts["records"])
    assert len(api.jobs()) == counts["records"]
    with sqlite3.connect(place.database) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


async def _check_vectors(records: dict[str, dict[str, object]]) -> None:
    """Check that each record carries the vector of the text it has."""
    embedder = FakeEmbedder(EmbedderName(provider="fake", model="", dimensions=16))
    vectors = await embedder.embed([str(record["text"]) for record in records.values()])
    for record, vector in zip(records.values(), vectors, strict=True):
        assert record["vector"] == [float(value) for value in vector]
