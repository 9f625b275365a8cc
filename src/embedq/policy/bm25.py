"""What the words of a query weigh, and which of them are rare enough to choose records by."""

from collections.abc import Mapping
from math import log

LEAST_WEIGHT = 1e-6  # of a word that stands in half of the records or more


def weight(records: int, matches: int) -> float:
    """Weigh a word by how few of a collection's records hold it: BM25's inverse document frequency."""
    return max(log((max(records - matches, 0) + 0.5) / (matches + 0.5)), LEAST_WEIGHT)


def rarest(matches: Mapping[str, int], most: int) -> list[str]:
    """Choose the rarest words, as many as together stand in no more than `most` records."""
    chosen, total = list[str](), 0
    for word in sorted(matches, key=lambda one: matches[one]):
        total += matches[word]
        if total > most:
            break
        chosen.append(word)
    return chosen
