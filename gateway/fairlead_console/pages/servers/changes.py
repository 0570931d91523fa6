"""Makes the rows of a page that shows how definitions that are held back differ from the served definitions. The size
of the page is bounded. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

import msgspec

from fairlead_tools.definitions.difference import HeldChange

PAGE_BYTES: Final = 60_000
"""Maximum size of all differences on a page, in bytes of HTML."""
EACH_BYTES: Final = 20_000
"""Maximum size of the difference of one definition, in bytes of HTML."""
LINE_BYTES: Final = 24
"""Approximate bytes of HTML tags around the text of one line."""
_KINDS: Final = {"+": "added", "-": "removed", "@": "member"}
_SIGNS: Final = {"added": "+", "removed": "−", "member": "", "same": " "}


class DiffLine(msgspec.Struct, frozen=True):
    """Line of a difference."""

    kind: str
    """`added`, `removed`, `same`, or `member` for the name of the following lines' member."""
    sign: str
    """Sign for the kind, in addition to its color."""
    text: str


class ShownChange(msgspec.Struct, frozen=True):
    """Held-back definition, with as many lines as fit on the page."""

    change: HeldChange
    lines: list[DiffLine]
    whole: bool
    """Whether all lines are shown. A definition that is not shown completely cannot be approved on the page."""


def change_rows(changes: Iterable[HeldChange]) -> list[ShownChange]:
    """Make the rows of one page."""
    remaining_bytes = PAGE_BYTES
    rows = []
    for change in changes:
        lines = [*_lines_within(change.lines, min(remaining_bytes, EACH_BYTES))]
        remaining_bytes -= sum(map(_size, lines))
        is_complete = len(lines) == len(change.lines) and not change.cut
        rows.append(ShownChange(change, [diff_line(line) for line in lines], is_complete))
    return rows


def diff_line(line: str) -> DiffLine:
    """Parse a line of a unified diff."""
    kind = _KINDS.get(line[:1], "same")
    text = line.strip("@ ") if kind == "member" else line[1:]
    return DiffLine(kind, _SIGNS[kind], text)


def _lines_within(lines: list[str], remaining_bytes: int) -> Iterator[str]:
    for line in lines:
        remaining_bytes -= _size(line)
        if remaining_bytes < 0:
            return
        yield line


def _size(line: str) -> int:
    return len(escape(line).encode()) + LINE_BYTES
