"""Texts to embed: each different, about as long as a note."""

WORDS = ("loom", "thread", "shuttle", "pattern", "engine", "number", "table", "machine", "letter", "garden", "river")
PLACES = (
    "harbour",
    "orchard",
    "window",
    "meadow",
    "bridge",
    "market",
    "cellar",
    "station",
    "library",
    "valley",
    "roof",
)


def text(number: int, *, salt: str = "", words: int = 20) -> str:
    """Make the text of this number; another salt, another text."""
    pool = WORDS + PLACES
    chosen = [pool[(number * (step + 7) + step * step + number // 30) % len(pool)] for step in range(words - 2)]
    return f"Note {salt}{number}: {' '.join(chosen)}."
