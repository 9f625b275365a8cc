"""Seed 004: the application may die at any moment; what was acknowledged is embedded, what was not is not there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from tests.acceptance.processes import Place
from tests.acceptance.seed_004.directory import BAKERY, Directory, sql, start
from tests.acceptance.waiting import until

KILLED_AFTER = 40  # acknowledged entries
UNEQUAL = """
SELECT count(*) AS entries, count(r.rid) AS records, count(j.id) AS jobs FROM yellow_book_entry e
LEFT JOIN embedq.record r ON r.id = e.id::text LEFT JOIN embedq.job j ON j.id >> 12 = r.rid
"""


@contextmanager
def writers(directory: Directory, acknowledged: list[str], count: int = 4) -> Iterator[None]:
    """Enter businesses from several threads until the application is gone."""

    def write(writer: int) -> None:
        number = 0
        with httpx.Client(base_url=directory.url, timeout=10) as http:
            while True:
                number += 1
                entry = {"name": f"Shop {writer}-{number}", "description": f"Goods of kind {writer}-{number}"}
                try:
                    answer = http.post("/api/yellow-books", json=entry)
                except httpx.TransportError:
                    return
                acknowledged.append(answer.json()["id"])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(count)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(30)


def test_kill_9_loses_nothing_that_was_acknowledged(place: Place) -> None:
    """Killed under load: after a restart each acknowledged entry is embedded, and none is there without its job."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="latency=0.02", EMBEDQ_BATCH_SIZE=5)
    acknowledged: list[str] = []
    with writers(directory, acknowledged):
        until(lambda: len(acknowledged) >= KILLED_AFTER, "some load")
        directory.kill()

    again = start(place)

    until(lambda: again.status()["missing"]["total"] == 0, "a vector for each record")
    [counted] = sql(place, UNEQUAL)
    assert len(acknowledged) <= counted["entries"] <= len(acknowledged) + 4
    assert counted["entries"] == counted["records"] == counted["jobs"] == again.status()["records"]["total"]
    for name in acknowledged:
        assert again.read({"id": name})["embedding_status"] == "embedded"
    assert again.dead() == []
    paid = place.embedded_hashes()
    assert len(paid) - len(set(paid)) <= 2 * 2 * 5  # two workers, each with a batch in the air and one ahead


def test_workers_may_run_beside_it(place: Place) -> None:
    """Without workers of its own the application only writes; `embedq work` embeds, and may die without a loss."""
    directory = start(place, DIRECTORY_WORKERS=0)
    dying = place.work(EMBEDQ_FAKE_FAULTS="hang=1000")
    added = directory.add(**BAKERY)
    until(place.calls, "a call that hangs")
    dying.kill()
    assert directory.read(added)["embedding_status"] == "pending"

    worker = place.work()

    directory.embedded(added)
    assert worker.leave() == 0
    assert directory.leave() == 0
