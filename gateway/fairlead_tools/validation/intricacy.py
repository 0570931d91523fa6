"""Upper bound for the work of validating a value, computed from the schema alone. No I/O.

Nested alternatives (`anyOf`) can double the work with each level: a schema of thirty definitions of two lines can need
a billion comparisons for the value `{}`. The *weight* of a schema at a height is the maximum number of subschemas that
may be tried along a path into a value whose length is that height. Weight times the size of a value bounds the work.
"""

from __future__ import annotations

from typing import Final

from fairlead_mcp.schemas import BELOW, HERE, References, Schema, parts

MAX_WEIGHT: Final = 2_000
"""Maximum weight of a schema. A schema with a greater weight is not used."""
REPEATED: Final = 4
"""Maximum number of evaluations of the subschemas beside an `unevaluated…` keyword. They show which members those
subschemas leave unevaluated."""
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
MAX_HEIGHT: Final = 64
"""Maximum height (nesting depth) of a value for which the weight of a recursive schema is computed; higher values are
not checked."""


class TooIntricate(Exception):
    """The weight of a schema exceeds MAX_WEIGHT, or the schema refers to itself without descending into the value."""


class Weights:
    """Weights of one schema by height. The constructor raises TooIntricate, and UnresolvedReference for an external
    reference."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._references = References(root)
        self._weights: dict[tuple[int, int], int] = {}
        """Computed weights by id of the schema and height."""
        self._open: set[tuple[int, int]] = set()
        """Ids and heights of the schemas whose weights are being computed. If a schema occurs in it again, the schema
        is recursive."""
        self.recursive = False
        """Whether the schema refers to itself."""
        flat = self._weight(root, -1)
        self.by_height: tuple[int, ...] = (flat,)
        """Weights by the height of a value. A schema that is not recursive has a single weight, for all heights."""
        if self.recursive:
            self.by_height = tuple(self._heights())

    def _heights(self) -> list[int]:
        heights: list[int] = []
        self._weights.clear()
        self._open.clear()
        for height in range(MAX_HEIGHT + 1):
            try:
                heights.append(self._weight(self._root, height))
            except TooIntricate:
                if height <= 2:
                    raise
                break
        return heights

    def _weight(self, schema: Schema, height: int) -> int:
        """Compute the weight of a schema at a height. The height -1 stands for any height: a recursive reference then
        sets `recursive`, and is not followed.
        """
        key = (id(schema), height)
        stored = self._weights.get(key)
        if stored is not None:
            return stored
        if key in self._open:
            if height >= 0:
                raise TooIntricate("the schema refers to itself without descending into the value")
            self.recursive = True
            return 1
        self._open.add(key)
        here = sum(self._weight(part, height) for part in self._references.of(schema))
        here += sum(self._weight(part, height) for _, part in parts(schema, HERE))
        weight = 1 + here * (REPEATED if any(keyword in schema for keyword in _UNEVALUATED) else 1)
        if height != 0:
            weight += self._below(schema, height if height < 0 else height - 1)
        self._open.discard(key)
        if weight > MAX_WEIGHT and not (height < 0 and self.recursive):
            raise TooIntricate(f"a value may have to be compared with more than {MAX_WEIGHT} schemas")
        self._weights[key] = weight
        return weight

    def _below(self, schema: Schema, height: int) -> int:
        everywhere = sum(self._weight(part, height) for _, part in parts(schema, BELOW))
        single = max((self._weight(part, height) for _, part in parts(schema, ("properties",))), default=0)
        return everywhere + single
