"""What turns texts into vectors."""

from collections.abc import Sequence
from typing import Protocol

from embedq.embedding import EmbedderLimits, Embeddings, Purpose
from embedq.model import EmbedderName


class Embedder(Protocol):
    """Turns texts into vectors. It translates its provider's errors into the kinds of `errors`.

    Whoever asks checks the vectors by `policy.vectors` before anything is done with them.
    """

    name: EmbedderName
    dimensions: int | None  # None: the name does not tell, the first answer will
    limits: EmbedderLimits
    remote: bool  # the fleet's budget binds it

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
        """Answer with one float32 row per text, in their order, and with what the provider said beside them."""
        ...

    def tokens(self, text: str) -> int:
        """Count the tokens of a text that the model sees; where nobody can, estimate rather too many than too few."""
        ...

    def truncates(self, text: str) -> bool:
        """Say whether the model sees only the beginning of this text."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads."""
        ...
