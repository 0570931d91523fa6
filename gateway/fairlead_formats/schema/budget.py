"""Limits on the work of converting one definition.

Pure module. A schema comes from a server that is not trusted: it may be nested without end, or expand from a few lines
to gigabytes. A step that can grow the schema charges this budget first, so that the schema is refused before it grows.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 100
"""Maximum number of levels of a schema, including those behind `$ref`s. The C encoder and Python's stack allow many
more levels.
"""
MAX_NODES: Final = 10_000
"""Maximum number of subschemas of one definition, including copies made for `$ref`s."""
MAX_BYTES: Final = 1 << 20
"""Maximum size of one definition as JSON in bytes, and likewise of all copies made for its `$ref`s."""
MAX_BRANCHES: Final = 64
"""Maximum number of alternatives that result from combining two unions."""


class TooMuch(ValueError):
    """A definition that exceeds a limit; the message names the limit."""


class ConversionBudget:
    """Remaining budget of one definition."""

    __slots__ = ("_bytes", "_nodes")

    def __init__(self, nodes: int = MAX_NODES, size: int = MAX_BYTES) -> None:
        self._nodes = nodes
        self._bytes = size

    def charge_node(self, depth: int) -> None:
        """Charge one subschema at level `depth`. Raises TooMuch."""
        if depth > MAX_DEPTH:
            raise TooMuch(f"the schema is nested more than {MAX_DEPTH} levels deep")
        self._nodes -= 1
        if self._nodes < 0:
            raise TooMuch(f"the schema has more than {MAX_NODES} parts, counting every use of a $ref")

    def charge_copy(self, size: int) -> None:
        """Charge a copy of `size` bytes. Raises TooMuch."""
        self._bytes -= size
        if self._bytes < 0:
            raise TooMuch(f"the schema unfolds into more than {MAX_BYTES} bytes")
