"""The Flask application of the how-to, as a real server with threads."""

import re
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.acceptance.frameworks.pages import write_files
from tests.acceptance.processes import Place, Process
from tests.acceptance.waiting import until

import embedq


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    write_files("use-it-in-flask.md", tmp_path)
    found = Place(tmp_path)
    yield found
    found.close()


def test_requests_of_many_threads_write_and_search(place: Place) -> None:
    """Each is a transaction of its own: a row with its vector, or where it is aborted neither."""
    command = [sys.executable, "-m", "flask", "--app", "shop", "run", "--port", "0"]
    environment = place.with_settings({"EMBEDQ_URL": None, "EMBEDQ_LOG_LEVEL": None})
    server = Process(command, folder=place.folder, name="flask", environment=environment)
    place.processes.append(server)

    def address() -> str | None:
        found = re.search(r"http://127\.0\.0\.1:\d+", server.errors)
        return found.group() if found else None

    url = until(address, "the address that it serves")

    def put(number: int) -> int:
        article = {"text": f"loom {number}", "price": number if number % 4 else -1}
        return httpx.put(f"{url}/articles/{number}", json=article, timeout=60).status_code

    with ThreadPoolExecutor(8) as threads:
        codes = list(threads.map(put, range(40)))
    found = httpx.get(f"{url}/search?q=loom", timeout=30).json()["hits"]
    server.leave()

    kept = {str(number) for number in range(40) if number % 4}
    db = sqlite3.connect(place.folder / "shop.db")
    rows = {name for (name,) in db.execute("SELECT id FROM article")}
    db.close()
    with embedq.connect(f"sqlite:///{place.folder}/shop.db", embedder="fake@16") as eq:
        records = {record.id for record in eq.records("articles").items}
    assert codes == [200 if number % 4 else 422 for number in range(40)]
    assert rows == records == kept
    assert set(found) <= kept
    assert len(found) == 5
