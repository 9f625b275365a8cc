"""What every test of a pair needs: its two halves, and the store that joins them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from embedq.ports import Store
from embedq.ports.halves import Corpus, JobStore
from embedq.stores.pair import PairStore
from embedq.stores.sqlite import SqliteCorpusStore, SqliteJobStore
from embedq.testing.stores.stage import Stage


@dataclass(frozen=True, slots=True)
class TwoPlaces:
    """Where the two halves are; `place` may be whatever the half that is tested needs."""

    folder: Path
    place: Any


class PairStage(Stage):
    """Corpus and queue are two databases."""

    one_database: ClassVar[bool] = False

    async def open_corpus(self, place: Any) -> Corpus:  # noqa: ANN401 whatever it needs
        """Open the corpus; a second call with the same place opens the same database again."""
        raise NotImplementedError(f"{type(self).__name__} must say how its corpus is opened at {place}")

    async def open_queue(self, place: Any) -> JobStore:  # noqa: ANN401 whatever it needs
        """Open the queue; a second call with the same place opens the same database again."""
        raise NotImplementedError(f"{type(self).__name__} must say how its queue is opened at {place}")

    async def open_halves(self, place: TwoPlaces) -> tuple[Corpus, JobStore]:
        """Open both halves."""
        raise NotImplementedError(f"{type(self).__name__} must say how its halves are opened at {place}")

    async def open_store(self, place: TwoPlaces) -> Store:  # type: ignore[override]  # a place is whatever a store needs
        """Open both halves, and join them."""
        return await PairStore.join(*await self.open_halves(place))

    @pytest.fixture
    def half(self, tmp_path: Path) -> Any:  # noqa: ANN401 whatever it needs
        """Return the place of the half that is tested."""
        return tmp_path

    @pytest.fixture
    def place(self, tmp_path: Path, half: Any) -> TwoPlaces:  # noqa: ANN401 whatever it needs
        """Return the places of the two halves."""
        return TwoPlaces(tmp_path, half)


class QueueStage(PairStage):
    """A queue under test, with a corpus in a SQLite file. Define `open_queue` to open it."""

    async def open_halves(self, place: TwoPlaces) -> tuple[Corpus, JobStore]:
        """Open both halves."""
        return await SqliteCorpusStore.open(place.folder / "corpus.db"), await self.open_queue(place.place)


class CorpusStage(PairStage):
    """A corpus under test, with a queue in a SQLite file. Define `open_corpus` to open it."""

    async def open_halves(self, place: TwoPlaces) -> tuple[Corpus, JobStore]:
        """Open both halves."""
        return await self.open_corpus(place.place), await SqliteJobStore.open(place.folder / "queue.db")
