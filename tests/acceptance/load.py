"""Writers under way while things break, and what must be true when all is calm again."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import httpx
from tests.acceptance.processes import Api, Place
from tests.acceptance.waiting import until

from embedq.embedding import Purpose
from embedq.model import EmbedderName
from embedq.testing.faults import FakeEmbedder

CREATED = 201
UNREACHED = 503  # the database is away: nothing is known of this write
ROWS = "/collections/notes/records"


class Writer:
    """Writes and edits through whatever API there is, and remembers what was acknowledged and what may be."""

    def __init__(self, api: Api, *, ids: int = 300, name: str = "n", bears: Collection[int] = ()) -> None:
        """Write through this API first, to so many ids; these statuses beside 201 are to be expected."""
        self.api = api
        self.acknowledged: dict[str, str] = {}
        self.possible: defaultdict[str, set[str]] = defaultdict(set)  # sent since, and never answered with a yes
        self.count = 0
        self.refused = 0
        self._ids = ids
        self._name = name
        self._bears = bears
        self._over = threading.Event()
        self._wrong: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"writer-{name}")
        self._thread.start()

    def finish(self) -> None:
        """Write no more."""
        self._over.set()
        self._thread.join()
        assert self._wrong == []

    def writes_on(self, more: int = 20, *, patience: float = 30.0) -> None:
        """Wait until more writes are acknowledged."""
        goal = self.count + more
        until(lambda: self.count >= goal or self._wrong, "more writes", patience=patience)
        assert self._wrong == []

    def _run(self) -> None:
        number = 0
        while not self._over.is_set() and not self._wrong:
            number += 1
            self._write(f"{self._name}{number % self._ids}", f"text number {number} of {self._name}")

    def _write(self, name: str, text: str) -> None:
        try:
            answer = self.api.http.post(ROWS, json={"id": name, "text": text})
        except httpx.TransportError:
            self.possible[name].add(text)
            return
        if answer.status_code in self._bears:
            self.possible[name].add(text)
            self.refused += 1
        elif answer.status_code != CREATED:
            self._wrong.append(f"{answer.status_code} {answer.text}")
        else:
            self.acknowledged[name] = text
            self.possible.pop(name, None)
            self.count += 1


async def check_integrity(api: Api, *writers: Writer, patience: float = 40.0) -> None:
    """Check that every acknowledged text, or one sent after it, has its own vector, and that no job is left."""
    api.embedded(api.counts()["records"], patience=patience)
    records = {name: api.record(name) for writer in writers for name in writer.acknowledged}
    for writer in writers:
        for name, text in writer.acknowledged.items():
            assert records[name]["text"] in {text, *writer.possible[name]}
            assert records[name]["embedding_status"] == "embedded"
    await check_vectors(records)
    counts = api.counts()
    assert (counts["failed"], counts["cancelled"], counts["completed"]) == (0, 0, counts["records"])
    assert len(api.jobs()) == counts["records"]


async def check_vectors(records: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that each record carries the vector of the text it has."""
    embedder = FakeEmbedder(EmbedderName(provider="fake", model="", dimensions=16))
    texts = [str(record["text"]) for record in records.values()]
    vectors = (await embedder.embed(texts, Purpose.DOCUMENT)).vectors
    for record, vector in zip(records.values(), vectors, strict=True):
        assert record["vector"] == [float(value) for value in vector]


def paid_twice(place: Place) -> int:
    """Count the embeddings that were paid for more than once."""
    return sum(times - 1 for times in Counter(place.embedded_hashes()).values())
