"""TOML parser that records the line of every table and member. No I/O."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_LINE: Final = re.compile(r"\(at line (\d+)")
_HEADER: Final = re.compile(r"\s*\[(\[?)\s*([^\]]+?)\s*\]")
_STEP: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([A-Za-z0-9_-]+)')


class UnreadableToml(ValueError):
    """Text that is not valid TOML; the message describes the fault."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line
        """Line number from 1; 0 if the line is unknown, for example because the error is at the end of the text."""


@dataclass(frozen=True)
class TomlDocument:
    """A parsed text: its content, and the line of every table and member."""

    content: Any
    line: int
    _lines: dict[tuple[str, ...], int] = field(repr=False)

    def line_of(self, path: Sequence[str | int]) -> int:
        """Line of the member at `path`, or of the closest enclosing table that has a header."""
        steps = tuple(map(str, path))
        while steps and steps not in self._lines:
            steps = steps[:-1]
        return self._lines.get(steps, self.line)


def parse_toml(text: str) -> TomlDocument | None:
    """Parse a TOML text; None if it is empty. Raises UnreadableToml."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = _LINE.search(str(error))
        raise UnreadableToml(str(error), int(line[1]) if line else 0) from error
    if not content:
        return None
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    lasts: dict[tuple[str, ...], int] = {}
    """Index of the last table of each array of tables."""
    for number, line_text in enumerate(text.splitlines(), 1):
        if (match := _HEADER.match(line_text)) and (steps := _steps(match[2])):
            *outer, name = steps
            array = (*_with_indexes(outer, lasts), name)
            if match[1]:
                lasts[array] = lasts.get(array, -1) + 1
            table = _with_indexes(steps, lasts)
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], number)
        elif "=" in line_text:
            lines.setdefault((*table, *_steps(line_text.partition("=")[0])), number)
    return TomlDocument(content, min(lines.values(), default=1), lines)


def _steps(dotted: str) -> tuple[str, ...]:
    return tuple(match[1] or match[2] or match[3] for match in _STEP.finditer(dotted))


def _with_indexes(steps: Sequence[str], lasts: Mapping[tuple[str, ...], int]) -> tuple[str, ...]:
    """Path of a table, with the index of the last table behind the name of each array of tables."""
    path: tuple[str, ...] = ()
    for step in steps:
        path += (step,)
        if path in lasts:
            path += (str(lasts[path]),)
    return path
