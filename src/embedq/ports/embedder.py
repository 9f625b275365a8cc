"""What turns texts into vectors."""

from collections.abc import Sequence
from typing import Protocol

from embedq.model import (
    EmbedderName,
    Vector,
)


class Embedder(Protocol):
    """Turns texts into vectors. It translates its provider's errors into the kinds of `errors`."""

    name: EmbedderName
    dimensions: int | None  # None: not known before the first answer
    max_inputs: int  # texts per call
    remote: bool  # a request budget binds it

    async def embed(self, texts: Sequence[str]) -> Vector:
        """Answer with one finite float32 row per text, in their order."""
        ...

    def truncates(self, text: str) -> bool:
        """Say whether the model sees only the beginning of this text."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads."""
        ...
