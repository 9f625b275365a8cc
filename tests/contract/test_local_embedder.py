import os

from embedq.embedders import build
from embedq.model import EmbedderName
from embedq.ports import Embedder
from embedq.testing.embedder import EmbedderSuite


class TestLocalEmbedder(EmbedderSuite):
    """The local model keeps the contract."""

    async def make_embedder(self) -> Embedder:
        """Make one of the installed weights."""
        return build(EmbedderName(provider="local", model=""), environment=os.environ)
