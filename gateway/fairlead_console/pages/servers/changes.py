"""Differences of definitions as rows of a page that stays small, whatever a server sends. Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

import msgspec

from fairlead_tools.definitions.difference import HeldChange

PAGE_BYTES: Final = 60_000
"""Bytes of all differences of one page, as HTML."""
EACH_BYTES: Final = 20_000
LINE_BYTES: Final = 24
"""Bytes of markup around a line, about."""
_KINDS: Final = {"+": "added", "-": "removed", "@": "member"}
_SIGNS: Final = {"added": "+", "removed": "−", "member": "", "same": " "}


class DiffLine(msgspec.Struct, frozen=True):
    """One line of a difference."""

    kind: str
    """`added`, `removed`, `member` (the name of what follows) or `same`."""
    sign: str
    """Says the same as the kind, for those who do not see colours."""
    text: str


class ShownChange(msgspec.Struct, frozen=True):
    """One definition, with as many lines as fit."""

    change: HeldChange
    lines: list[DiffLine]
    whole: bool
    """Whether all lines are shown: what nobody has seen cannot be approved on the page."""


def shown_changes(changes: Iterable[HeldChange]) -> list[ShownChange]:
    """Rows of one page."""
    left = PAGE_BYTES
    rows = []
    for change in changes:
        lines = [*_fitting(change.lines, min(left, EACH_BYTES))]
        left -= sum(map(_size, lines))
        whole = len(lines) == len(change.lines) and not change.cut
        rows.append(ShownChange(change, [diff_line(line) for line in lines], whole))
    return rows


def diff_line(line: str) -> DiffLine:
    """A line of a unified diff."""
    kind = _KINDS.get(line[:1], "same")
    text = line.strip("@ ") if kind == "member" else line[1:]
    return DiffLine(kind, _SIGNS[kind], text)


def _fitting(lines: list[str], left: int) -> Iterator[str]:
    for line in lines:
        left -= _size(line)
        if left < 0:
            return
        yield line


def _size(line: str) -> int:
    return len(escape(line).encode()) + LINE_BYTES
