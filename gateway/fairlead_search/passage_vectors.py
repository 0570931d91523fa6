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
CONTEXT_CHARACTERS: Final = 200
"""Maximum number of characters of a unit's context that are encoded."""
TEXT_CHARACTERS: Final = 600
"""Maximum number of characters of context and text that are encoded per unit."""
PIECE_UNITS: Final = 32
"""Number of units that are encoded between two checks of the time limit, in less than 0.1 s."""
NEIGHBOUR_WEIGHT: Final = 0.5
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
        word_scores = scores(units, question)
        if not units or not understands(question):
            return word_scores
        encode = self._encode or encoder().encode
        deadline = self._clock() + seconds
        order = sorted(range(len(units)), key=lambda index: -word_scores[index])
        rows, has_vector = self._vectors([_text(unit) for unit in units], order, encode, deadline)
        cosines = _cosines(units, rows, encode([question])[0])
        words = {index: score for index, score in enumerate(word_scores) if score > 0}
        cosines_by_index = {
            index: float(cosines[index])
            for index in np.flatnonzero(has_vector).tolist()
            if index in words or cosines[index] >= LEAST_COSINE
        }
        cosines_by_index[UNRELATED] = 0.0
        fused_scores = [0.0] * (len(units) + 1)
        for index, score in fuse(words, cosines_by_index, len(fused_scores), VECTOR_SHARE):
            fused_scores[index] = score
        return fused_scores[:UNRELATED]

    def _vectors(
        self, texts: Sequence[str], order: Iterable[int], encode: Encode, deadline: float
    ) -> tuple[Matrix, Matrix]:
        """Vectors as rows, one per text, and an array that says which texts have a vector."""
        keys = [blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
        ordered_keys = dict.fromkeys(keys[index] for index in order)
        vectors = {key: self._vectors_by_text[key] for key in ordered_keys if key in self._vectors_by_text}
        texts_by_key = dict(zip(keys, texts, strict=True))
        new_keys = [key for key in ordered_keys if key not in vectors]
        for begin in range(0, len(new_keys), PIECE_UNITS):
            if self._clock() >= deadline:
                break
            piece = new_keys[begin : begin + PIECE_UNITS]
            new_rows = encode([texts_by_key[key] for key in piece])
            vectors.update(zip(piece, (row.astype(WIRE).tobytes() for row in new_rows), strict=True))
        self._cache(vectors)
        has_vector: Matrix = np.array([key in vectors for key in keys], bool)
        width = len(next(iter(vectors.values()))) if vectors else 0
        all_bytes = b"".join(vectors.get(key, bytes(width)) for key in keys)
        rows: Matrix = np.frombuffer(all_bytes, WIRE).reshape(len(keys), -1).astype(np.float32)
        return rows, has_vector

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
    context = f"{unit.context[-CONTEXT_CHARACTERS:]} | " if unit.context else ""
    return (context + unit.text)[:TEXT_CHARACTERS]


def _cosines(units: Sequence[Unit], rows: Matrix, query: Matrix) -> Matrix:
    """Cosine of each unit with a query: the mean of two cosines, of the unit's own vector, and of the sum of the
    vectors of the unit and its neighbours in the same result.
    """
    if not rows.shape[1]:
        return np.zeros(len(rows), np.float32)
    sums = rows.copy()
    adjacent: Matrix = np.array([first.source == second.source for first, second in pairwise(units)], bool)
    share = NEIGHBOUR_WEIGHT * adjacent[:, None]
    sums[1:] += share * rows[:-1]
    sums[:-1] += share * rows[1:]
    lengths = np.linalg.norm(sums, axis=1)
    mean = (sums @ query) / np.where(lengths > 0, lengths, 1)
    cosines: Matrix = (1 - NEIGHBOUR_WEIGHT) * (rows @ query) + NEIGHBOUR_WEIGHT * mean
    return cosines
