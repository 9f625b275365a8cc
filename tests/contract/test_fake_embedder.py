from embedq.embedders.fake import FakeEmbedder
from embedq.model import EmbedderName
from embedq.ports import Embedder
from embedq.testing.embedder import EmbedderSuite


class TestFakeEmbedder(EmbedderSuite):
    """The fake embedder keeps the contract."""

    async def make_embedder(self) -> Embedder:
        """Make one that does not fail."""
        return FakeEmbedder(EmbedderName(provider="fake", model=""))


class TestFakeEmbedderOfOddLength(EmbedderSuite):
    """It also does so for a length that no word of its noise divides."""

    async def make_embedder(self) -> Embedder:
        """Make one of 101 dimensions."""
        return FakeEmbedder(EmbedderName(provider="fake", model="other", dimensions=101))
