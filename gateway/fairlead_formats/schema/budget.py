"""Bounds on the work of converting one definition.

Pure module. A schema comes from a foreign server: it may be nested without end, or a few lines that unfold into
gigabytes. A step that can grow is paid for here first, so that a bomb is refused before it is expanded.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 100
"""Levels of a schema, after `$ref`s are followed. The C encoder and Python's stack end far later."""
MAX_NODES: Final = 10_000
"""Subschemas of one definition, copies by `$ref` included."""
MAX_BYTES: Final = 1 << 20
"""Size of one definition as JSON, and of all copies that its `$ref`s ask for."""
MAX_BRANCHES: Final = 64
"""Alternatives that come of multiplying unions out."""


class TooMuch(ValueError):
    """A definition that asks for more work than it may; the message says of what."""


class ConversionBudget:
    """Budget that is left for one definition."""

    __slots__ = ("_bytes", "_nodes")

    def __init__(self, nodes: int = MAX_NODES, size: int = MAX_BYTES) -> None:
        self._nodes = nodes
        self._bytes = size

    def node(self, depth: int) -> None:
        """One more subschema, `depth` levels down. Raises TooMuch."""
        if depth > MAX_DEPTH:
            raise TooMuch(f"the schema is nested more than {MAX_DEPTH} levels deep")
        self._nodes -= 1
        if self._nodes < 0:
            raise TooMuch(f"the schema has more than {MAX_NODES} parts, counting every use of a $ref")

    def copy(self, size: int) -> None:
        """Another copy of `size` bytes. Raises TooMuch."""
        self._bytes -= size
        if self._bytes < 0:
            raise TooMuch(f"the schema unfolds into more than {MAX_BYTES} bytes")
