"""What every embedder keeps to. An adapter proves it with one class:

class TestMyEmbedder(EmbedderSuite):
    async def make_embedder(self) -> Embedder:
        return MyEmbedder(...)
"""  # noqa: D415 - ends in the example

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from embedq.ports import Embedder

TEXTS = (
    "A loom weaves threads into cloth.",
    "x",
    "The harbour was quiet before the storm, and the boats lay close together.",
    "Größe, naïveté, Ωμέγα, 東京タワー, مرحبا, 🚲🌧️👩‍🚀",
    "one\nline\tafter another  with   blanks",
    "A loom weaves threads into cloth.",
)
_CLOSE = 1e-6


class EmbedderSuite(ABC):
    """Inherit it, say how the embedder is made, and run pytest."""

    pytestmark = pytest.mark.asyncio

    @abstractmethod
    async def make_embedder(self) -> Embedder:
        """Make a fresh embedder; the suite closes it."""

    @pytest_asyncio.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        """Hand each test its own embedder."""
        made = await self.make_embedder()
        yield made
        await made.close()

    async def test_each_text_has_one_finite_row(self, embedder: Embedder) -> None:
        """An answer has one float32 row per text, and every value is finite."""
        vectors = await embedder.embed(TEXTS)

        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(TEXTS)
        assert np.isfinite(vectors).all()

    async def test_rows_stand_in_the_texts_order(self, embedder: Embedder) -> None:
        """A row belongs to the text at its place, also when the texts come in another order."""
        forward = await embedder.embed(TEXTS)

        backward = await embedder.embed(TEXTS[::-1])

        assert np.abs(forward - backward[::-1]).max() < _CLOSE

    async def test_a_text_has_the_same_vector_alone_and_in_any_batch(self, embedder: Embedder) -> None:
        """What else is in the batch does not move a vector by more than 1e-6."""
        together = await embedder.embed([*TEXTS, "word " * 200])

        alone = np.vstack([await embedder.embed([text]) for text in TEXTS])

        assert np.abs(together[: len(TEXTS)] - alone).max() < _CLOSE

    async def test_equal_texts_have_equal_vectors_and_others_do_not(self, embedder: Embedder) -> None:
        """The first and the last text are the same; every other pair differs."""
        vectors = await embedder.embed(TEXTS)

        assert np.abs(vectors[0] - vectors[-1]).max() < _CLOSE
        distances = np.linalg.norm(vectors[:-1, None] - vectors[None, :-1], axis=-1)
        assert (distances[~np.eye(len(TEXTS) - 1, dtype=bool)] > 1e-3).all()

    async def test_no_text_is_no_row(self, embedder: Embedder) -> None:
        """An empty batch is answered with an empty array, as wide as the vectors where that is known."""
        vectors = await embedder.embed([])

        assert vectors.shape == (0, embedder.dimensions or 0)
        assert vectors.dtype == np.float32

    async def test_the_dimensions_are_those_declared(self, embedder: Embedder) -> None:
        """Rows are as long as declared before the call, and after it the length is known."""
        declared = embedder.dimensions

        vectors = await embedder.embed(["a text"])

        assert declared in {None, vectors.shape[1]}
        assert embedder.dimensions == vectors.shape[1]

    async def test_a_full_batch_is_taken(self, embedder: Embedder) -> None:
        """As many texts as it takes per call (at most 300 are tried here) come back as as many rows."""
        texts = [f"text number {number}" for number in range(min(embedder.max_inputs, 300))]

        vectors = await embedder.embed(texts)

        assert vectors.shape[0] == len(texts)

    async def test_truncation_is_told_truthfully(self, embedder: Embedder) -> None:
        """A text is said to be cut if, and only if, its end leaves no trace in the vector."""
        long = "word " * 2000
        short, ending = "A short text.", long + " and a surprising end about zebras"

        [one, other] = await embedder.embed([long, ending])

        assert not embedder.truncates(short)
        assert embedder.truncates(ending) == bool(np.abs(one - other).max() < _CLOSE)
        assert embedder.truncates(ending) == embedder.truncates(long)

    async def test_it_can_be_closed_twice(self, embedder: Embedder) -> None:
        """Closing again does no harm, used or not."""
        await embedder.embed(["a text"])

        await embedder.close()
        await embedder.close()
