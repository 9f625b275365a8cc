from collections.abc import AsyncIterator

import pytest

from embedq.embedders import build
from embedq.model import EmbedderName
from embedq.ports import Embedder
from embedq.testing.embedder import EmbedderSuite
from embedq.testing.provider import EmbeddingProvider


class TestOpenAIEmbedder(EmbedderSuite):
    """The OpenAI embedder keeps the contract, through the SDK and a real connection."""

    @pytest.fixture(autouse=True)
    async def _provider(self) -> AsyncIterator[None]:
        async with EmbeddingProvider(dimensions=96) as self.provider:
            yield

    async def make_embedder(self) -> Embedder:
        """Make one of a model whose dimensions are not known beforehand."""
        environment = {"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": self.provider.base_url}
        return build(EmbedderName(provider="openai", model="house-model"), environment=environment)


class TestOpenAIEmbedderOfFixedLength(TestOpenAIEmbedder):
    """It also does so when the dimensions are asked for."""

    async def make_embedder(self) -> Embedder:
        """Make one of 64 dimensions."""
        environment = {"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": self.provider.base_url}
        return build(EmbedderName(provider="openai", model="house-model", dimensions=64), environment=environment)
