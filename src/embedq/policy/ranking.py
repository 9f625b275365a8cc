"""How two rankings become one."""

from collections.abc import Sequence
from dataclasses import replace

from embedq.model import Hit

RANK_OFFSET = 60  # of reciprocal rank fusion: how little the first places outweigh the next


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
