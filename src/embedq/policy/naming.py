"""How embedders and collections are named."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from embedq.errors import NotFound, SettingsError
from embedq.model import EmbedderName

MAX_DIMENSIONS = 16_000
MOST_NAMES = 1000  # that are compared for a suggestion


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


def no_collection(name: str, known: Iterable[str], advice: str = "") -> NotFound:
    """Build the error for a collection that does not exist: a name that is nearly the same, or else advice."""
    near = get_close_matches(name, islice(known, MOST_NAMES), n=1)
    said = f"did you mean {near[0]!r}?" if near else advice
    return NotFound(f"no collection {name!r}" + (f": {said}" if said else ""))
