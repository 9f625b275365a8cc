"""How embedders are named."""

from embedq.errors import SettingsError
from embedq.model import EmbedderName

MAX_DIMENSIONS = 16_000


def parse_embedder(text: str) -> EmbedderName:
    """Read `provider`, `provider:MODEL` or either with `@dimensions`; a model's name may contain colons and slashes."""
    name, at, asked = text.strip().rpartition("@")
    if not at:
        name, asked = text.strip(), ""
    provider, _, model = name.partition(":")
    if not provider or (at and not asked.isdecimal()):
        raise SettingsError(f"EMBEDQ_EMBEDDER={text!r}: write provider:MODEL or provider:MODEL@dimensions")
    if at and not 1 <= int(asked) <= MAX_DIMENSIONS:
        raise SettingsError(f"EMBEDQ_EMBEDDER={text!r}: dimensions must be 1 to {MAX_DIMENSIONS}")
    return EmbedderName(provider=provider, model=model, dimensions=int(asked) if at else None)
