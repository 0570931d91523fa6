"""Joins two rankings of the same tools or texts: by their words (BM25) and by their vectors (cosine). Pure module.

By score, which ranks better than by rank (RRF) where the scores can be compared: the cosines of all candidates are
stretched to 0 to 1, and BM25's are divided by the best.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from typing import Final, TypeVar

DEPTH: Final = 100
"""Candidates that each ranking brings in."""
VECTOR_SHARE: Final = 0.6
"""Part of the score that is by vectors; the rest is by words."""
Key = TypeVar("Key", str, int)


def fuse(
    words: Mapping[Key, float], cosines: Mapping[Key, float], limit: int, share: float = VECTOR_SHARE
) -> list[tuple[Key, float]]:
    """At most `limit` keys with scores from 0 to 1, the best first. `words` are the best by BM25, `cosines` those of
    all candidates of both rankings, `share` is the part of the score that is by them; a key without a cosine is ranked
    by its words alone.
    """
    most = max(words.values(), default=0.0) or 1.0
    least = min(cosines.values(), default=0.0)
    span = max(cosines.values(), default=0.0) - least or 1.0
    scores = {}
    for key in {**words, **cosines}:
        by_words = words.get(key, 0.0) / most
        cosine = cosines.get(key)
        by_vector = by_words if cosine is None else (cosine - least) / span
        scores[key] = share * by_vector + (1 - share) * by_words
    return nsmallest(limit, scores.items(), key=lambda pair: (-pair[1], pair[0]))
