"""Asking an embedder as workers and queries do: its answer is checked once, on the way."""

from collections.abc import Sequence

from embedq.embedding import Purpose
from embedq.model import Vector
from embedq.policy.vectors import checked
from embedq.ports import Embedder


async def asked(embedder: Embedder, texts: Sequence[str]) -> Vector:
    """Embed documents, and check what comes back."""
    answer = await embedder.embed(texts, Purpose.DOCUMENT)
    return checked(answer.vectors, texts=len(texts), dimensions=embedder.dimensions)
