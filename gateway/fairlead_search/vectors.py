"""Vectors of tools in memory, and the tools whose vectors are nearest to a query's. Needs numpy (extra `search`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[Any]
"""32-bit floats, one vector a row."""
WIRE: Final = "<f2"
"""Form of a vector between processes: 16-bit floats, whose rounding moves a cosine by less than 0.001."""
FIRST_ROWS: Final = 256


class VectorStore:
    """Vectors of one model by the key of their tool, each of length 1, in rows of one matrix."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._matrix: Matrix = np.zeros((0, 0), np.float32)
        self.version = 0
        """Changes with the rows."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def put(self, vectors: Mapping[str, bytes]) -> None:
        """Add or replace vectors in `WIRE` form. One of another number of dimensions than those before is of another
        model, and they go.
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
        """Drop all vectors but those of `keys`."""
        remaining = [key for key in self._rows if key in keys]
        self._matrix = self._matrix[[self._rows[key] for key in remaining]]
        self._rows = {key: row for row, key in enumerate(remaining)}
        if not remaining:
            self._matrix = np.zeros((0, 0), np.float32)
        self.version += 1

    def rows(self, keys: Iterable[str]) -> tuple[list[str], Matrix]:
        """The keys that have a vector, and their rows."""
        stored_rows = [(key, row) for key in keys if (row := self._rows.get(key)) is not None]
        return [key for key, _ in stored_rows], np.array([row for _, row in stored_rows], np.int64)

    def cosines(self, query: Matrix, rows: Matrix) -> Matrix:
        """Cosines of a query of length 1 with the vectors of these rows."""
        if len(query) != self._matrix.shape[1]:
            return np.zeros(len(rows), np.float32)
        few = len(rows) * 4 < len(self._rows)
        cosines: Matrix = self._matrix[rows] @ query if few else (self._matrix[: len(self._rows)] @ query)[rows]
        return cosines


def nearest(cosines: Matrix, depth: int) -> Matrix:
    """Places of the `depth` largest, in no order."""
    every: Matrix = np.arange(len(cosines))
    candidates: Matrix = every if len(cosines) <= depth else np.argpartition(cosines, -depth)[-depth:]
    return candidates


def decode(raw: bytes) -> Matrix:
    """A vector of length 1 from its `WIRE` form; one of zeros stays as it is."""
    return normalize(np.frombuffer(raw, WIRE).astype(np.float32))


def encode(vector: Sequence[float] | Matrix) -> bytes:
    """The `WIRE` form of a vector."""
    raw: bytes = normalize(np.asarray(vector, np.float32)).astype(WIRE).tobytes()
    return raw


def normalize(vector: Matrix) -> Matrix:
    """A vector of the same direction and length 1; one of zeros, or with what is not a number, as zeros."""
    length = float(np.linalg.norm(vector))
    usable: Matrix = vector / length if 0 < length < float("inf") else np.zeros_like(vector)
    return usable
