"""Merges two rankings of tools or texts: by words (BM25) and by vectors (cosine). Pure module.

The scores are merged, not the ranks (RRF), because merging comparable scores ranks better. To make the scores
comparable, the cosines of all candidates are scaled to the range from 0 to 1, and BM25 scores are divided by the
highest BM25 score.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from typing import Final, TypeVar

DEPTH: Final = 100
"""Maximum number of candidates from each of the two rankings."""
VECTOR_SHARE: Final = 0.6
"""Weight of the cosine in the merged score; the BM25 score has the rest."""
Key = TypeVar("Key", str, int)


def fuse(
    words: Mapping[Key, float], cosines: Mapping[Key, float], limit: int, share: float = VECTOR_SHARE
) -> list[tuple[Key, float]]:
    """At most `limit` keys with scores from 0 to 1, best first. `words`: BM25 scores of the best keys. `cosines`:
    cosines of the candidates of both rankings. `share`: weight of cosines. A key without a cosine is ranked by words
    only.
    """
    max_score = max(words.values(), default=0.0) or 1.0
    min_cosine = min(cosines.values(), default=0.0)
    span = max(cosines.values(), default=0.0) - min_cosine or 1.0
    scores = {}
    for key in {**words, **cosines}:
        word_score = words.get(key, 0.0) / max_score
        cosine = cosines.get(key)
        vector_score = word_score if cosine is None else (cosine - min_cosine) / span
        scores[key] = share * vector_score + (1 - share) * word_score
    return nsmallest(limit, scores.items(), key=lambda pair: (-pair[1], pair[0]))
