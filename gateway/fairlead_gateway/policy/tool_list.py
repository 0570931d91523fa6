"""The tool list of a view, as the bytes of a `tools/list` result.

Pure module. The class is not in `policy.view`, because mypyc compiles that module, and objects of compiled classes
cannot be referenced weakly. Lists are referenced weakly so that views can share them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from fairlead_api.slices import finish

PIECE: Final = 256
"""Number of definitions that are joined per slice."""


class ToolList:
    """The definitions of a list as bytes, which are joined at the first use. Views with the same tools share a list. A
    long list stays in several parts, because joining seven megabytes would block the event loop for milliseconds.
    """

    __slots__ = ("__weakref__", "_definitions", "_parts", "legacy")

    def __init__(self, definitions: Sequence[bytes], legacy: ToolList | None = None) -> None:
        self._definitions = definitions
        self._parts: tuple[bytes, ...] = ()
        self.legacy = self if legacy is None else legacy
        """The list for legacy clients; this list itself if no definition differs for them."""

    @property
    def is_joined(self) -> bool:
        """Whether the list is already joined."""
        return bool(self._parts)

    def join_in_slices(self) -> Generator[None, None, None]:
        """Join this list and its legacy list now."""
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
        """The parts of the list, which is joined if necessary."""
        if not self._parts:
            finish(self.join_in_slices())
        return self._parts
