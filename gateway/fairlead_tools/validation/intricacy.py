"""Upper bound of the work that a schema can make of a value, known before there is a value.

Pure module. Alternatives that refer to alternatives double with each step: thirty definitions of two lines make a
billion comparisons of `{}`. So a schema is weighed: its *weight* at a height is the greatest number of schemas that can
be tried along one path of that length into a value. Weight times the size of a value bounds the work.
"""

from __future__ import annotations

from typing import Final

from fairlead_mcp.schemas import BELOW, HERE, References, Schema, parts

MAX_WEIGHT: Final = 2_000
REPEATED: Final = 4
"""How often the schemas beside an `unevaluated…` keyword are tried, at most, to learn what they have left."""
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
MAX_HEIGHT: Final = 64
"""Height of values of a schema that refers to itself."""


class TooIntricate(Exception):
    """A schema whose weight is beyond MAX_WEIGHT before it gets anywhere, or that is nothing but a circle."""


class Weights:
    """The weights of one schema. Raises TooIntricate, and UnresolvedReference for a reference that leads out of it."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._references = References(root)
        self._weights: dict[tuple[int, int], int] = {}
        self._open: set[tuple[int, int]] = set()
        self.recursive = False
        flat = self._weight(root, -1)
        self.by_height: tuple[int, ...] = (flat,)
        """Index: height of a value. One entry where every height weighs the same."""
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
        """With `height` -1, of a value of any height, or a mark that the schema refers to itself."""
        key = (id(schema), height)
        stored = self._weights.get(key)
        if stored is not None:
            return stored
        if key in self._open:
            if height >= 0:
                raise TooIntricate("it refers to itself without a step into the value")
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
