"""Texts to embed: each different, about as long as a note."""

WORDS = tuple(
    "loom thread shuttle pattern engine number table machine letter garden river paper winter market signal harbour "
    "candle ladder mirror copper orchard window silver kettle basket meadow anchor bridge cotton lantern".split()
)


def text(number: int, *, salt: str = "", words: int = 20) -> str:
    """Make the text of this number; another salt, another text."""
    chosen = [WORDS[(number * (step + 7) + step * step + number // 30) % len(WORDS)] for step in range(words - 2)]
    return f"Note {salt}{number}: {' '.join(chosen)}."
