"""Stop words, and the fusion of rankings."""

from collections.abc import Sequence
from dataclasses import replace

from embedq.model import Hit

RANK_OFFSET = 60  # of reciprocal rank fusion: the larger, the less the first ranks outweigh the next

FILLERS = frozenset(
    word
    for line in (
        "a about an and are as at be been but by can could did do does for from had has have he her his how i if in",
        "into is it its may me must my no nor not of on or our she should so such than that the their them then there",
        "these they this to us was we were what when where which who whom whose why will with would you your",
    )
    for word in line.split()
)
MARKS = "!\"'(),.:;?[]{}"


def without_stop_words(words: str) -> str:
    """Leave out English stop words, unless there are no other words.

    A record that shares only "and" with a query must not be ranked with one that is near in meaning.
    """
    kept = [word for word in words.split() if word.strip(MARKS).casefold() not in FILLERS]
    return " ".join(kept) or words


def fuse(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """Merge rankings by reciprocal rank; a hit is stale if the vector that found it is."""
    scores: dict[str, float] = {}
    hits: dict[str, Hit] = {}
    for ranking in rankings:
        for place, hit in enumerate(ranking):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1.0 / (RANK_OFFSET + place + 1)
            known = hits.setdefault(hit.id, hit)
            hits[hit.id] = replace(known, stale=known.stale or hit.stale)
    best = sorted(scores, key=lambda id_: -scores[id_])[:k]
    return [replace(hits[id_], score=scores[id_]) for id_ in best]
