"""Cuts the results of tools into small units, each with the text around it that says what it is about. Pure module.

A unit of a text is a line, or a part of a long one, about which the less indented lines above it and the headings of
its sections say something; that of a JSON document is a small value, or a few scalar members of an object or a list,
about which the names of the objects around them do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

MAX_DEPTH: Final = 64
MAX_ABOVE: Final = 5
"""Less indented lines above a line that count as what it is about."""
MAX_ABOVE_CHARACTERS: Final = 100
"""Characters of each of them."""
MAX_NAMES: Final = 6
NAME_CHARACTERS: Final = 80
NAMING: Final = frozenset(
    {"name", "id", "title", "key", "path", "kind", "label", "code", "commit", "subject", "package", "tool"}
)
"""Members of a JSON object whose text says which one it is."""
NAMING_DEPTH: Final = 2
"""Objects in one another in which such members are looked for: `metadata.name` names what `spec` stands beside."""
_HEADING: Final = re.compile(r"(#{1,6}) ")


class Unit(msgspec.Struct, frozen=True, gc=False):
    """A part of one result."""

    source: str
    path: str
    """Path in a JSON document; empty in a text."""
    line: int
    """Line of a text, or of a string in a JSON document, from 1; 0 where there are no lines."""
    text: str
    about: str
    """Text around it that says what it belongs to."""

    @property
    def where(self) -> str:
        return " ".join(part for part in (self.path, f"line {self.line}" if self.line else "") if part)


def units(source: str, document: object, size: int, least: int = 0) -> Iterator[Unit]:
    """Units of a text, or of a decoded JSON document, in their order: of about `size` characters at most, and of
    text of at least `least`, where lines are taken together for it.
    """
    cutter = _Cutter(source, size, least)
    if isinstance(document, str):
        yield from cutter.text("", document, ())
    else:
        yield from cutter.document("$", document, ())


@dataclass(frozen=True)
class _Cutter:
    """Cuts the texts and JSON documents of one source."""

    source: str
    size: int
    least: int

    def text(self, path: str, text: str, about: tuple[str, ...]) -> Iterator[Unit]:
        """Units of a text at a path; `about` says what it belongs to."""
        outline = _Outline()
        held: list[str] = []
        first, around = 0, ""
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                if held:
                    held.append(line)
                continue
            outline.leave(line)
            if held and len(line) > self.size * 2:
                yield Unit(self.source, path, first, "\n".join(held).rstrip(), around)
                held = []
            if not held:
                first = number
                around = " ".join([*about, *outline.words()])
            held.append(line)
            if sum(map(len, held)) >= self.least:
                parts = _pieces("\n".join(held), self.size)
                yield from (Unit(self.source, path, first, part, around) for part in parts)
                held = []
            outline.enter(line)
        if held:
            yield Unit(self.source, path, first, "\n".join(held).rstrip(), around)

    def document(self, path: str, value: object, about: tuple[str, ...], depth: int = 0) -> Iterator[Unit]:
        """Units of a JSON value at a path: small members of an object together, large ones by themselves."""
        if isinstance(value, str):
            yield from self.text(path, value, about)
            return
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= self.size or depth == MAX_DEPTH or not isinstance(value, dict | list):
            around = " ".join(about)
            yield from (Unit(self.source, path, 0, part, around) for part in _pieces(text, self.size))
            return
        inner = (*about, *_names(value)) if isinstance(value, dict) else about
        scalars: dict[str, object] = {}
        room = self.size
        for name, item in _members(value):
            if isinstance(item, dict | list) or _is_long(item, self.size):
                own = f"{path}.{name}" if isinstance(value, dict) else f"{path}{name}"
                inside = (*inner, name) if isinstance(value, dict) else inner
                yield from self.document(own, item, inside, depth + 1)
                continue
            written = len(json.dumps({name: item}, ensure_ascii=False))
            if scalars and written > room:
                yield self._together(path, scalars, inner)
                scalars, room = {}, self.size
            scalars[name] = item
            room -= written
        if scalars:
            yield self._together(path, scalars, inner)

    def _together(self, path: str, scalars: dict[str, object], about: tuple[str, ...]) -> Unit:
        return Unit(self.source, path, 0, json.dumps(scalars, ensure_ascii=False), " ".join(about))


class _Outline:
    """Lines that a line of a text is below: by indentation, and by headings of Markdown."""

    def __init__(self) -> None:
        self._above: list[tuple[int, str]] = []
        self._headings: dict[int, str] = {}

    def words(self) -> list[str]:
        """The nearest lines above, and the headings, outermost first."""
        return [*(words for _, words in self._above[-MAX_ABOVE:]), *self._headings.values()]

    def leave(self, line: str) -> None:
        """Forget the lines that `line` is not below."""
        heading = _HEADING.match(line)
        while self._above and (heading is not None or self._above[-1][0] >= _indent(line)):
            self._above.pop()
        if heading is not None:
            level = len(heading[1])
            self._headings = {other: words for other, words in self._headings.items() if other < level}

    def enter(self, line: str) -> None:
        """Count `line` among those that the next ones may be below."""
        self._above.append((_indent(line), line[:MAX_ABOVE_CHARACTERS]))
        if (heading := _HEADING.match(line)) is not None:
            self._headings[len(heading[1])] = line[:MAX_ABOVE_CHARACTERS]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t-*"))


def _members(value: dict[str, object] | list[object]) -> Iterable[tuple[str, object]]:
    """Members of an object by name, items of a list by their index in brackets."""
    return value.items() if isinstance(value, dict) else ((f"[{index}]", item) for index, item in enumerate(value))


def _pieces(line: str, size: int) -> Iterator[str]:
    """Parts of a long line, cut behind a sentence or a word where there is one."""
    if len(line) <= size * 2:
        yield line
        return
    start = 0
    while start < len(line):
        end = start + size
        if end < len(line):
            behind = max(line.rfind(mark, start + size // 2, end) for mark in (". ", "。", "; ", " ", ","))
            end = end if behind < 0 else behind + 1
        yield line[start:end]
        start = end


def _is_long(value: object, size: int) -> bool:
    return isinstance(value, str) and (len(value) > size or "\n" in value)


def _names(value: dict[str, object]) -> list[str]:
    """Short texts that say which object it is."""
    names: list[str] = []
    level: list[dict[str, object]] = [value]
    for _ in range(NAMING_DEPTH + 1):
        below: list[dict[str, object]] = []
        for each in level:
            for name, item in each.items():
                if isinstance(item, str) and name in NAMING and len(item) <= NAME_CHARACTERS:
                    names.append(item)
                elif isinstance(item, dict):
                    below.append(item)
        level = below
    return names[:MAX_NAMES]
