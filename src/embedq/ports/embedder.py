"""What turns texts into vectors."""

from collections.abc import Sequence
from typing import Protocol

from embedq.embedding import EmbedderLimits, Embeddings, Purpose
from embedq.model import EmbedderName


class Embedder(Protocol):
    """Turns texts into vectors. It translates its provider's errors into the kinds of `errors`.

    The caller checks the vectors with `policy.vectors` before it uses them.
    """

    name: EmbedderName
    dimensions: int | None  # None: known after the first answer
    limits: EmbedderLimits
    remote: bool  # the fleet's budget binds it

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
        """Return one float32 row per text, in order, with the tokens and limits that the provider reported."""
        ...

    def tokens(self, text: str) -> int:
        """Count the tokens of a text that the model uses; an estimate must rather be too high than too low."""
        ...

    def truncates(self, text: str) -> bool:
        """Say whether the model uses only the beginning of this text."""
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...
