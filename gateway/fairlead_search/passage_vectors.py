"""Ranks units (small parts of tool results) by words and vectors together. Needs numpy and the built-in encoder (extra
`search`).

The vector of a unit is computed from the unit's text and context. The unit's cosine is combined with the cosines of
neighbouring units. Vectors are cached by a hash over text and context. Units that cannot be encoded within the time of
one search are ranked by words only; a later search encodes them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import numpy as np

from fairlead_search.encoder import encoder, understands
from fairlead_search.fusion import fuse
from fairlead_search.passage_relevance import scores
from fairlead_search.units import Unit
from fairlead_search.vectors import WIRE, Matrix

MAX_BYTES: Final = 32 << 20
"""Maximum number of bytes of cached vectors: enough for 40,000 vectors, of units with 5 MB of text in total."""
ABOUT_CHARACTERS: Final = 200
"""Maximum number of characters of a unit's context that are encoded."""
TEXT_CHARACTERS: Final = 600
"""Maximum number of characters of context and text that are encoded per unit."""
PIECE: Final = 32
"""Number of units that are encoded between two checks of the time limit, in less than 0.1 s."""
BESIDE: Final = 0.5
"""Weight of each neighbour's vector in its sum with the unit's own vector. Also the weight of that sum's cosine against
the cosine of the unit alone.
"""
VECTOR_SHARE: Final = 0.5
"""Weight of the cosine in the merged score; the BM25 score has the rest."""
LEAST_COSINE: Final = 0.15
"""Minimum cosine with which a unit matches although it has no word of the question."""
UNRELATED: Final = -1
"""Index of an imaginary unrelated unit with the cosine 0. It is the lower end of the scale to which cosines are
converted.
"""
Encode = Callable[[Sequence[str]], Matrix]


class PassageVectors:
    """Scores units by their vectors, which it caches. The least recently used vectors are dropped first."""

    def __init__(
        self,
        encode: Encode | None = None,
        clock: Callable[[], float] = time.monotonic,
        limit_bytes: int = MAX_BYTES,
    ) -> None:
        """Create an empty cache. `encode` computes vectors of length 1; the default is the built-in encoder."""
        self._encode = encode
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._vectors_by_text: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def scores(self, units: Sequence[Unit], question: str, seconds: float) -> list[float]:
        """Score of each unit from 0 to 1; 0 if neither words nor vector match. New vectors are computed for at most
        about `seconds`. A question in a script that the encoder does not support is matched by words only.
        """
        by_words = scores(units, question)
        if not units or not understands(question):
            return by_words
        encode = self._encode or encoder().encode
        until = self._clock() + seconds
        first = sorted(range(len(units)), key=lambda index: -by_words[index])
        rows, has = self._vectors([_text(unit) for unit in units], first, encode, until)
        cosines = _cosines(units, rows, encode([question])[0])
        words = {index: score for index, score in enumerate(by_words) if score > 0}
        near = {
            index: float(cosines[index])
            for index in np.flatnonzero(has).tolist()
            if index in words or cosines[index] >= LEAST_COSINE
        }
        near[UNRELATED] = 0.0
        fused_scores = [0.0] * (len(units) + 1)
        for index, score in fuse(words, near, len(fused_scores), VECTOR_SHARE):
            fused_scores[index] = score
        return fused_scores[:UNRELATED]

    def _vectors(
        self, texts: Sequence[str], order: Iterable[int], encode: Encode, until: float
    ) -> tuple[Matrix, Matrix]:
        """Vectors as rows, one per text, and an array that says which texts have a vector."""
        keys = [blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
        lacking = dict.fromkeys(keys[index] for index in order)
        vectors = {key: self._vectors_by_text[key] for key in lacking if key in self._vectors_by_text}
        texts_by_key = dict(zip(keys, texts, strict=True))
        new = [key for key in lacking if key not in vectors]
        for begin in range(0, len(new), PIECE):
            if self._clock() >= until:
                break
            piece = new[begin : begin + PIECE]
            encoded = encode([texts_by_key[key] for key in piece])
            vectors.update(zip(piece, (row.astype(WIRE).tobytes() for row in encoded), strict=True))
        self._cache(vectors)
        has: Matrix = np.array([key in vectors for key in keys], bool)
        width = len(next(iter(vectors.values()))) if vectors else 0
        raw = b"".join(vectors.get(key, bytes(width)) for key in keys)
        rows: Matrix = np.frombuffer(raw, WIRE).reshape(len(keys), -1).astype(np.float32)
        return rows, has

    def _cache(self, vectors: dict[bytes, bytes]) -> None:
        for key, vector in vectors.items():
            if key not in self._vectors_by_text:
                self._bytes += len(key) + len(vector)
            self._vectors_by_text[key] = vector
            self._vectors_by_text.move_to_end(key)
        while self._bytes > self._limit_bytes:
            key, vector = self._vectors_by_text.popitem(last=False)
            self._bytes -= len(key) + len(vector)


def _text(unit: Unit) -> str:
    around = f"{unit.about[-ABOUT_CHARACTERS:]} | " if unit.about else ""
    return (around + unit.text)[:TEXT_CHARACTERS]


def _cosines(units: Sequence[Unit], rows: Matrix, query: Matrix) -> Matrix:
    """Cosine of each unit with a query: the mean of two cosines, of the unit's own vector, and of the sum of the
    vectors of the unit and its neighbours in the same result.
    """
    if not rows.shape[1]:
        return np.zeros(len(rows), np.float32)
    sums = rows.copy()
    adjacent: Matrix = np.array([first.source == second.source for first, second in pairwise(units)], bool)
    share = BESIDE * adjacent[:, None]
    sums[1:] += share * rows[:-1]
    sums[:-1] += share * rows[1:]
    lengths = np.linalg.norm(sums, axis=1)
    mean = (sums @ query) / np.where(lengths > 0, lengths, 1)
    cosines: Matrix = (1 - BESIDE) * (rows @ query) + BESIDE * mean
    return cosines
