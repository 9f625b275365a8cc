"""The example `directory` as a real process, and what is asked of it."""

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from tests.acceptance.processes import Api, Place
from tests.acceptance.waiting import until

from embedq.embedders.fake import vectors_of

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "examples.directory")
BAKERY: dict[str, Any] = {
    "name": "Khan Bakery",
    "description": "Fresh bread every morning",
    "categories": ["food", "bakery"],
    "city": "Ulaanbaatar",
    "phone": "7011-0001",
}
Entry = dict[str, Any]


def text_of(entry: Entry) -> str:
    """Write the text that is embedded: name, description, categories and city."""
    parts = [entry["name"], entry["description"], ", ".join(entry["categories"]), entry["city"]]
    return "\n".join(part for part in parts if part)


def hash_of(entry: Entry) -> str:
    """Name that text as the fake embedder does in its notes."""
    return sha256(text_of(entry).encode()).hexdigest()


def vector_of(entry: Entry, dimensions: int = 16) -> list[float]:
    """Make the vector that the fake embedder makes of it."""
    return [float(value) for value in vectors_of([bytes.fromhex(hash_of(entry))], dimensions)[0]]


class Directory(Api):
    """The running application."""

    def ask(self, method: str, path: str, expected: int, **options: Any) -> Any:  # noqa: ANN401 httpx's own options
        """Send a request that must be answered so; answer with its body."""
        answer = self.http.request(method, path, **options)
        assert answer.status_code == expected, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def add(self, **entry: object) -> Entry:
        """Enter a business."""
        return dict(self.ask("POST", "/api/yellow-books", 201, json=entry))

    def change(self, entry: Entry, **changes: object) -> Entry:
        """Change one."""
        return dict(self.ask("PATCH", f"/api/yellow-books/{entry['id']}", 200, json=changes))

    def read(self, entry: Entry) -> Entry:
        """Read one with its vector."""
        return dict(self.ask("GET", f"/api/yellow-books/{entry['id']}", 200, params={"include": "embedding"}))

    def names(self, words: str, **parameters: str) -> list[str]:
        """Name the businesses that a search finds."""
        return [hit["name"] for hit in self.search(words, **parameters)["hits"]]

    def search(self, words: str, **parameters: str) -> dict[str, Any]:
        """Look for businesses."""
        return dict(self.ask("GET", "/api/yellow-books/search", 200, params={"q": words, **parameters}))

    def dead(self, **which: str) -> list[dict[str, Any]]:
        """List dead letters."""
        return list(self.ask("GET", "/api/admin/dead-letters", 200, params=which)["dead_letters"])

    def standing(self, entry: Entry, status: str) -> Entry:
        """Wait until an entry's embedding stands so."""
        return until(lambda: (found := self.read(entry))["embedding_status"] == status and found, f"it is {status}")

    def embedded(self, *some: Entry) -> list[Entry]:  # type: ignore[override]  # asks for entries, not for a number
        """Wait until these entries have vectors of their texts."""
        return [self.standing(entry, "embedded") for entry in some]

    def died(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many dead letters."""
        return until(lambda: len(letters := self.dead()) == count and letters, f"{count} dead letters")

    def status(self) -> dict[str, Any]:
        """Read the queue's status."""
        return dict(self.ask("GET", "/api/admin/queue", 200))


def start(place: Place, **settings: object) -> Directory:
    """Start the application on the place's database, and wait until it answers."""
    python_path = {"PYTHONPATH": str(ROOT), "DIRECTORY_PORT": 0}
    environment = place.with_settings(python_path | settings)
    name = f"{len(place.processes)}-directory"
    process = Directory(COMMAND, folder=place.folder, name=name, environment=environment)
    place.processes.append(process)
    return process


def sql(place: Place, statement: str) -> list[dict[str, Any]]:
    """Run statements on the place's database; answer with the rows of the last."""
    with psycopg.connect(place.environment["EMBEDQ_URL"], autocommit=True, row_factory=dict_row) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []
