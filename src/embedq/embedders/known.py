"""What is known of an embedder by its name alone: no library is imported for it."""

from collections.abc import Mapping
from dataclasses import replace

from embedq.model import EmbedderName

LOCAL_MODEL = "all-MiniLM-L6-v2"
DEFAULT_DIMENSIONS: Mapping[str, int] = {"local": 384, "fake": 384}
OPENAI_DIMENSIONS: Mapping[str, int] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


def canonical(name: EmbedderName) -> EmbedderName:
    """Write a name the one way it is stored, so that `local`, `local@384` and the model's full name are one space."""
    model = LOCAL_MODEL if name.provider == "local" and not name.model else name.model
    usual = DEFAULT_DIMENSIONS.get(name.provider)
    return replace(name, model=model, dimensions=None if name.dimensions == usual else name.dimensions)


def known_dimensions(name: EmbedderName) -> int | None:
    """Say how long the vectors will be. None: the first answer will tell."""
    if name.dimensions is not None:
        return name.dimensions
    if name.provider == "openai":
        return OPENAI_DIMENSIONS.get(name.model)
    return DEFAULT_DIMENSIONS.get(name.provider)
