"""A process that follows the vectors of a file."""

from pathlib import Path
from typing import Any

from embedq.model import Vector
from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.follower import Follower
from embedq.telemetry import Event, Telemetry

SPACE = 1


class Process:
    """A follower as another process would have it, with what it reports."""

    def __init__(self, path: Path) -> None:
        """Look at this file."""
        self.acts: list[tuple[str, str]] = []
        self.folder = path.with_name(f"{path.name}.index")
        self.follower = Follower(lambda: connect(path, read_only=True), self.folder, Telemetry(self._note))

    def _note(self, event: Event, _: str, facts: Any) -> None:  # noqa: ANN401 - facts are of any kind
        assert event is Event.INDEX
        self.acts.append((facts["act"], facts.get("reason", "")))

    def found(self, collection: int, vector: Vector, k: int = 100) -> list[int]:
        """Search, and answer with the rids."""
        return [rid for rid, _ in self.follower.search(collection, SPACE, vector, k)]
