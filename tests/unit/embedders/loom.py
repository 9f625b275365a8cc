"""A provider as somebody would add it: this file, one row of the table, and an extra if it needs a library."""

from collections.abc import Mapping, Sequence

import numpy as np

from embedq.embedders.http_settings import address_in, key_in
from embedq.embedding import EmbedderLimits, Embeddings, Purpose
from embedq.errors import Unavailable
from embedq.model import EmbedderName
from embedq.policy.tokens import estimated
from embedq.ports import Model, Provider
from embedq.settings import Variable

KEY, BASE_URL = "LOOM_API_KEY", "LOOM_BASE_URL"


class LoomEmbedder:
    """Answers with the lengths of the texts."""

    remote = True

    def __init__(self, name: EmbedderName, environment: Mapping[str, str]) -> None:
        """Read the settings."""
        self.name = name
        self.dimensions, self.limits = PROVIDER.dimensions_of(name), PROVIDER.limits_of(name)
        self.key = key_in(environment, KEY, of="loom")
        self.address = address_in(environment, BASE_URL, default="http://127.0.0.1:1/v1")

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
        """Refuse documents, and say more of the settings than one should."""
        if purpose is Purpose.DOCUMENT:
            raise Unavailable(f"{self.address} refused the key {self.key}")
        rows = np.array([[len(text), 1, 2, 3] for text in texts], np.float32)
        return Embeddings(vectors=rows, tokens=sum(map(self.tokens, texts)))

    def tokens(self, text: str) -> int:
        """Estimate."""
        return estimated(text)

    def truncates(self, text: str) -> bool:  # noqa: ARG002 the contract's signature
        """Say no."""
        return False

    async def close(self) -> None:
        """Hold nothing."""


PROVIDER = Provider(
    build=LoomEmbedder,
    remote=True,
    limits=EmbedderLimits(inputs=10),
    variables=(
        Variable(name=KEY, secret=True, description="The key of `loom:` embedders."),
        Variable(name=BASE_URL, receives=(KEY,), description="The server of `loom:` embedders."),
    ),
    default_model="jacquard",
    models={"jacquard": Model(dimensions=4, limits=EmbedderLimits(inputs=3, tokens_per_call=30))},
)
