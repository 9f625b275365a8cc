"""The fusion of rankings."""

from collections.abc import Sequence
from dataclasses import replace

from embedq.model import Hit

RANK_OFFSET = 60  # of reciprocal rank fusion: the larger, the less the first ranks outweigh the next
# Of what a query's words say, in the best record by words: for no vote, and for a whole one.
LEAST_SHARE, FULL_SHARE = 0.4, 0.6
LEAST_WEIGHT = 0.001  # what is found by words alone still follows what is found by meaning


def weight_of_words(worded: Sequence[Hit]) -> float:
    """Say how much a ranking by words counts: a few shared words say less than the meaning.

    A paraphrase shares little with what it asks for, and records that share a word by chance must not outvote the
    meaning. So words count by how much of what they say the best record by them holds.
    """
    share = (worded[0].share or 0.0) if worded else 0.0
    return min(1.0, max(LEAST_WEIGHT, (share - LEAST_SHARE) / (FULL_SHARE - LEAST_SHARE)))


def fuse(near: Sequence[Hit], worded: Sequence[Hit], k: int) -> list[Hit]:
    """Merge the rankings by meaning and by words by reciprocal rank; a hit is stale if the vector that found it is."""
    scores: dict[str, float] = {}
    hits: dict[str, Hit] = {}
    for ranking, weight in ((near, 1.0), (worded, weight_of_words(worded))):
        for place, hit in enumerate(ranking):
            scores[hit.id] = scores.get(hit.id, 0.0) + weight / (RANK_OFFSET + place + 1)
            known = hits.setdefault(hit.id, hit)
            hits[hit.id] = replace(known, stale=known.stale or hit.stale)
    best = sorted(scores, key=lambda id_: -scores[id_])[:k]
    return [replace(hits[id_], score=scores[id_]) for id_ in best]
