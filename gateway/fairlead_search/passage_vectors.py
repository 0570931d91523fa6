"""Ranks units of results by words and by vectors at once. Needs numpy and the built-in encoder (extra `search`).

A unit's vector is of its text and what is said around it, and counts together with those of its neighbours. Vectors are
kept by the hash of that text; what cannot be encoded in the time of one search is ranked by words, and encoded by the
next one.
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
from fairlead_search.relevance import scores
from fairlead_search.units import Unit
from fairlead_search.vectors import WIRE, Matrix

MAX_BYTES: Final = 32 << 20
"""Bytes of vectors that are kept: those of 40,000 units, 5 MB of text in all."""
ABOUT_CHARACTERS: Final = 200
"""Characters of what is said around a unit that its vector has."""
TEXT_CHARACTERS: Final = 600
"""Characters of all that is encoded for a unit."""
PIECE: Final = 32
"""Units that are encoded before the time is looked at: less than 0.1 s."""
BESIDE: Final = 0.5
"""Weight of the units beside one, and of the mean with them as against the unit alone."""
VECTOR_SHARE: Final = 0.5
"""Part of a score that is by vectors; the rest is by words."""
LEAST_COSINE: Final = 0.15
"""Cosine from which a unit is found without any word of the question."""
UNRELATED: Final = -1
"""Place, behind all units, of a text that has nothing to do with the question: scores are stretched from its cosine."""
Encode = Callable[[Sequence[str]], Matrix]


class PassageVectors:
    """Vectors of units, the least used dropped first."""

    def __init__(
        self,
        encode: Encode | None = None,
        clock: Callable[[], float] = time.monotonic,
        limit_bytes: int = MAX_BYTES,
    ) -> None:
        """`encode` makes vectors of length 1 of texts: the installed encoder, unless it is given."""
        self._encode = encode
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._vectors_by_text: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def scores(self, units: Sequence[Unit], question: str, seconds: float) -> list[float]:
        """Score of each unit from 0 to 1, 0 where neither word nor vector fits; at most about `seconds` go into making
        vectors. Of a question in a script that the encoder does not know words alone decide.
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
        """A row per text, and whether it has one."""
        keys = [blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
        lacking = dict.fromkeys(keys[index] for index in order)
        vectors = {key: self._vectors_by_text[key] for key in lacking if key in self._vectors_by_text}
        of = dict(zip(keys, texts, strict=True))
        new = [key for key in lacking if key not in vectors]
        for begin in range(0, len(new), PIECE):
            if self._clock() >= until:
                break
            piece = new[begin : begin + PIECE]
            made = encode([of[key] for key in piece])
            vectors.update(zip(piece, (row.astype(WIRE).tobytes() for row in made), strict=True))
        self._keep(vectors)
        has: Matrix = np.array([key in vectors for key in keys], bool)
        width = len(next(iter(vectors.values()))) if vectors else 0
        raw = b"".join(vectors.get(key, bytes(width)) for key in keys)
        rows: Matrix = np.frombuffer(raw, WIRE).reshape(len(keys), -1).astype(np.float32)
        return rows, has

    def _keep(self, vectors: dict[bytes, bytes]) -> None:
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
    """Cosines of units with a query: half by themselves, half by the mean with their neighbours of the same result."""
    if not rows.shape[1]:
        return np.zeros(len(rows), np.float32)
    together = rows.copy()
    joined: Matrix = np.array([first.source == second.source for first, second in pairwise(units)], bool)
    share = BESIDE * joined[:, None]
    together[1:] += share * rows[:-1]
    together[:-1] += share * rows[1:]
    lengths = np.linalg.norm(together, axis=1)
    mean = (together @ query) / np.where(lengths > 0, lengths, 1)
    cosines: Matrix = (1 - BESIDE) * (rows @ query) + BESIDE * mean
    return cosines
