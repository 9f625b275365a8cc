"""What every embedder must satisfy. An adapter tests it with one class:

class TestMyEmbedder(EmbedderSuite):
    async def make_embedder(self) -> Embedder:
        return MyEmbedder(...)
"""  # noqa: D415 - ends in the example

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import astuple

import numpy as np
import pytest
import pytest_asyncio

from embedq.embedding import Purpose
from embedq.model import Vector
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
    """Inherit it, define how the embedder is made, and run pytest."""

    pytestmark = pytest.mark.asyncio

    @abstractmethod
    async def make_embedder(self) -> Embedder:
        """Make a new embedder; the suite closes it."""

    @pytest_asyncio.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        """Give each test its own embedder."""
        made = await self.make_embedder()
        yield made
        await made.close()

    async def test_each_text_has_one_finite_row(self, embedder: Embedder) -> None:
        """An answer has one float32 row per text, and every value is finite."""
        vectors = await _vectors(embedder, TEXTS)

        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(TEXTS)
        assert np.isfinite(vectors).all()

    async def test_rows_are_in_the_texts_order(self, embedder: Embedder) -> None:
        """A row belongs to the text at its position, also when the texts come in another order."""
        forward = await _vectors(embedder, TEXTS)

        backward = await _vectors(embedder, TEXTS[::-1])

        assert np.abs(forward - backward[::-1]).max() < _CLOSE

    async def test_a_text_has_the_same_vector_alone_and_in_any_batch(self, embedder: Embedder) -> None:
        """The rest of the batch does not change a vector by more than 1e-6."""
        together = await _vectors(embedder, [*TEXTS, "word " * 200])

        alone = np.vstack([await _vectors(embedder, [text]) for text in TEXTS])

        assert np.abs(together[: len(TEXTS)] - alone).max() < _CLOSE

    async def test_equal_texts_have_equal_vectors_and_others_do_not(self, embedder: Embedder) -> None:
        """The first and the last text are the same; every other pair differs."""
        vectors = await _vectors(embedder, TEXTS)

        assert np.abs(vectors[0] - vectors[-1]).max() < _CLOSE
        distances = np.linalg.norm(vectors[:-1, None] - vectors[None, :-1], axis=-1)
        assert (distances[~np.eye(len(TEXTS) - 1, dtype=bool)] > 1e-3).all()

    async def test_no_text_is_no_row(self, embedder: Embedder) -> None:
        """An empty batch returns an empty array, as wide as the vectors where that is known."""
        vectors = (await embedder.embed([], Purpose.DOCUMENT)).vectors

        assert vectors.shape == (0, embedder.dimensions or 0)
        assert vectors.dtype == np.float32

    async def test_the_dimensions_are_those_declared(self, embedder: Embedder) -> None:
        """Rows are as long as the embedder declares before the call, if it declares anything."""
        declared = embedder.dimensions

        vectors = await _vectors(embedder, ["a text"])

        assert declared in {None, vectors.shape[1]}
        assert embedder.dimensions == declared

    async def test_a_query_has_a_vector_of_the_same_space(self, embedder: Embedder) -> None:
        """A query is accepted like a document, and its vector has the same length."""
        document = await _vectors(embedder, ["a text"])

        query = (await embedder.embed(["a text"], Purpose.QUERY)).vectors

        assert query.shape == document.shape
        assert query.dtype == np.float32
        assert np.isfinite(query).all()

    async def test_a_querys_vector_is_near_its_document(self, embedder: Embedder) -> None:
        """Of several texts, the one equal to the query is the nearest."""
        documents = await _vectors(embedder, TEXTS[:4])
        query = (await embedder.embed([TEXTS[2]], Purpose.QUERY)).vectors[0]

        cosines = documents @ query / np.linalg.norm(documents, axis=1)

        assert int(np.argmax(cosines)) == 2

    async def test_the_tokens_used_are_reported_or_unknown(self, embedder: Embedder) -> None:
        """They are a count that grows with the texts, or unknown."""
        short = (await embedder.embed(["one"], Purpose.DOCUMENT)).tokens
        long = (await embedder.embed(["one two three four five six seven"], Purpose.DOCUMENT)).tokens

        assert (short is None) == (long is None)
        assert short is None or long is None or 0 < short < long

    async def test_a_text_is_counted_with_at_least_the_tokens_it_uses(self, embedder: Embedder) -> None:
        """The estimate is no less than what is used, alone and together; a text has one token or more."""
        counted = [embedder.tokens(text) for text in TEXTS]

        used = (await embedder.embed(TEXTS, Purpose.DOCUMENT)).tokens

        assert min(counted) >= 1
        assert used is None or sum(counted) >= used

    async def test_the_limits_can_be_kept(self, embedder: Embedder) -> None:
        """A call has room for a text, and every known limit is a number above zero."""
        limits = embedder.limits
        known = [value for value in astuple(limits) if value is not None]

        assert all(isinstance(value, int) and value > 0 for value in known)
        assert (limits.tokens_per_text or 0) <= (limits.tokens_per_call or limits.tokens_per_text or 0)

    async def test_a_full_batch_is_taken(self, embedder: Embedder) -> None:
        """As many texts as it takes per call (at most 300 are tried here) return as many rows."""
        texts = [f"text number {number}" for number in range(min(embedder.limits.inputs, 300))]

        vectors = await _vectors(embedder, texts)

        assert vectors.shape[0] == len(texts)

    async def test_truncation_is_reported_correctly(self, embedder: Embedder) -> None:
        """A text is reported as cut if, and only if, its end does not affect the vector."""
        long = "word " * 2000
        short, ending = "A short text.", long + " and a surprising end about zebras"

        [one, other] = await _vectors(embedder, [long, ending])

        assert not embedder.truncates(short)
        assert embedder.truncates(ending) == bool(np.abs(one - other).max() < _CLOSE)
        assert embedder.truncates(ending) == embedder.truncates(long)

    async def test_it_can_be_closed_twice(self, embedder: Embedder) -> None:
        """Closing again is harmless, used or not."""
        await embedder.embed(["a text"], Purpose.DOCUMENT)

        await embedder.close()
        await embedder.close()


async def _vectors(embedder: Embedder, texts: Sequence[str]) -> Vector:
    return (await embedder.embed(texts, Purpose.DOCUMENT)).vectors
