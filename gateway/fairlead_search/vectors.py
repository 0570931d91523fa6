"""Stores vectors of tools in memory, and computes cosines with queries. Needs numpy (extra `search`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[Any]
"""Array of 32-bit floats, one vector per row."""
WIRE: Final = "<f2"
"""Format of vectors between processes: 16-bit floats. Their rounding changes a cosine by less than 0.001."""
FIRST_ROWS: Final = 256


class VectorStore:
    """Vectors of one model with length 1, by the key of their tool, as rows of one matrix."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._matrix: Matrix = np.zeros((0, 0), np.float32)
        self.version = 0
        """Counter that is increased when the rows change, so that cached row numbers are read again."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def put(self, vectors: Mapping[str, bytes]) -> None:
        """Add or replace vectors in the format `WIRE`. If a new vector has another number of dimensions than the stored
        vectors, it comes from another model, and all stored vectors are dropped.
        """
        for key, raw in vectors.items():
            vector = decode(raw)
            if not self._rows or len(vector) != self._matrix.shape[1]:
                self._rows = {}
                self._matrix = np.zeros((FIRST_ROWS, len(vector)), np.float32)
            row = self._rows.setdefault(key, len(self._rows))
            if row == len(self._matrix):
                self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self._matrix[row] = vector
        self.version += 1

    def keep(self, keys: Collection[str]) -> None:
        """Drop all vectors except the vectors of `keys`."""
        remaining = [key for key in self._rows if key in keys]
        self._matrix = self._matrix[[self._rows[key] for key in remaining]]
        self._rows = {key: row for row, key in enumerate(remaining)}
        if not remaining:
            self._matrix = np.zeros((0, 0), np.float32)
        self.version += 1

    def rows(self, keys: Iterable[str]) -> tuple[list[str], Matrix]:
        """The keys with a vector, and their row numbers."""
        stored_rows = [(key, row) for key in keys if (row := self._rows.get(key)) is not None]
        return [key for key, _ in stored_rows], np.array([row for _, row in stored_rows], np.int64)

    def cosines(self, query: Matrix, rows: Matrix) -> Matrix:
        """Cosines of a query (length 1) with the vectors of some rows."""
        if len(query) != self._matrix.shape[1]:
            return np.zeros(len(rows), np.float32)
        are_few = len(rows) * 4 < len(self._rows)
        cosines: Matrix = self._matrix[rows] @ query if are_few else (self._matrix[: len(self._rows)] @ query)[rows]
        return cosines


def largest_cosines(cosines: Matrix, depth: int) -> Matrix:
    """Indexes of the `depth` largest cosines, in no particular order."""
    if len(cosines) <= depth:
        indexes: Matrix = np.arange(len(cosines))
    else:
        indexes = np.argpartition(cosines, -depth)[-depth:]
    return indexes


def decode(raw: bytes) -> Matrix:
    """Decode a vector from the format `WIRE` and scale it to length 1; a zero vector stays unchanged."""
    return normalize(np.frombuffer(raw, WIRE).astype(np.float32))


def encode(vector: Sequence[float] | Matrix) -> bytes:
    """Encode a vector in the format `WIRE`."""
    raw: bytes = normalize(np.asarray(vector, np.float32)).astype(WIRE).tobytes()
    return raw


def normalize(vector: Matrix) -> Matrix:
    """Scale a vector to length 1. A zero vector, or a vector with NaN or infinity, becomes a zero vector."""
    length = float(np.linalg.norm(vector))
    normalized: Matrix = vector / length if 0 < length < float("inf") else np.zeros_like(vector)
    return normalized
