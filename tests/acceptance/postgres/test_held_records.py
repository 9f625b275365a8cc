"""An application that leaves a transaction open keeps only those waiting who want its record."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import asyncpg
import httpx
from tests.acceptance.processes import Api, Place
from tests.acceptance.waiting import until

CROWD = 50
SOON = 5.0  # seconds, on a busy machine; a writer waits for ten
HOLD = "SELECT 1 FROM embedq.record WHERE id = 'held' FOR UPDATE"
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@contextmanager
def holding(url: str) -> Iterator[None]:
    """Hold the record `held` in an open transaction of an application."""
    with asyncio.Runner() as runner:
        application = runner.run(asyncpg.connect(url))
        runner.run(application.execute("BEGIN"))
        runner.run(application.execute(HOLD))
        yield
        runner.run(application.execute("ROLLBACK"))
        runner.run(application.close())


def put(api: Api, name: str, text: str) -> httpx.Response:
    """Write one record, on a connection of its own."""
    return httpx.post(f"{api.url}/collections/notes/records", json={"id": name, "text": text}, timeout=40)


def search(api: Api) -> httpx.Response:
    """Search by words and meaning."""
    return api.http.post("/collections/notes/search", json={"query": "other", "k": 3})


def waits(url: str) -> bool:
    """Say whether somebody waits for a lock."""

    async def ask() -> int:
        db = await asyncpg.connect(url)
        try:
            return int(await db.fetchval(WAITS))
        finally:
            await db.close()

    return asyncio.run(ask()) > 0


def test_a_crowd_at_a_held_record_leaves_the_server_to_others(place: Place) -> None:
    """Fifty puts of one held record: everything else is answered at once, and they are told why they cannot be."""
    url = place.environment["EMBEDQ_URL"]
    api = place.up()
    api.put({"id": "held", "text": "before"}, {"id": "other", "text": "other"})
    api.embedded(2)
    with ThreadPoolExecutor(CROWD) as crowd, holding(url):
        puts: list[Future[httpx.Response]] = [crowd.submit(put, api, "held", f"mine {n}") for n in range(CROWD)]
        until(lambda: waits(url), "a crowd that waits")
        for number in range(5):
            began = time.monotonic()
            assert search(api).status_code == 200
            assert put(api, "other", f"other {number}").status_code == 201
            assert api.status()["queue"]["pending"]["total"] >= 0
            assert time.monotonic() - began < SOON
        until(lambda: api.record("other")["embedding_status"] == "embedded", "a worker that goes on")
        answers = [answer.result() for answer in puts]

    assert {answer.status_code for answer in answers} == {503}
    assert all("transaction" in answer.json()["detail"] for answer in answers)
    assert put(api, "held", "mine").status_code == 201
