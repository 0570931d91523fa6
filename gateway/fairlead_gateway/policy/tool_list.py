"""The list of tools that a view shows, as the bytes that answer `tools/list`.

Pure module. Not in `policy.view`, which is compiled: a list is held weakly, so that views which show the same share it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from fairlead_api.slices import finish

PIECE: Final = 256
"""Definitions that are put together between two pauses."""


class ToolList:
    """The definitions of a list as bytes, put together at the first use. Views that show the same share one. A long one
    stays in several parts: to make one of seven megabytes stops everybody for milliseconds.
    """

    __slots__ = ("__weakref__", "_definitions", "_parts", "legacy")

    def __init__(self, definitions: Sequence[bytes], legacy: ToolList | None = None) -> None:
        self._definitions = definitions
        self._parts: tuple[bytes, ...] = ()
        self.legacy = self if legacy is None else legacy
        """The list for clients of 2025-11-25 and before: this one where nothing in it differs for them."""

    @property
    def ready(self) -> bool:
        """Whether it was put together."""
        return bool(self._parts)

    def join_in_slices(self) -> Generator[None, None, None]:
        """Put it together now."""
        definitions = self._definitions
        pieces = []
        for start in range(0, len(definitions), PIECE):
            pieces.append((b",%b" if start else b"%b") % b",".join(definitions[start : start + PIECE]))
            yield
        if not self._parts:
            first, *rest = pieces or [b""]
            self._parts = b'{"tools":[%b' % first, *rest, b"]"
            self._definitions = ()
        if self.legacy is not self:
            yield from self.legacy.join_in_slices()

    def read(self) -> tuple[bytes, ...]:
        """In parts."""
        if not self._parts:
            finish(self.join_in_slices())
        return self._parts
