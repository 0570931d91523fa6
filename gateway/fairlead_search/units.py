"""Splits results of tools into small units with their context. Pure module.

In a text, a unit is a line or a part of a long line. Its context is the headings of its sections, and the lines above
it that are less indented. In a JSON document, a unit is a small value, or a few scalar members of an object or array.
Its context is the names of the objects around it.
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
"""Maximum number of less indented lines above a line that belong to its context."""
MAX_ABOVE_CHARACTERS: Final = 100
"""Maximum number of characters of each line in a context."""
MAX_NAMES: Final = 6
NAME_CHARACTERS: Final = 80
NAMING: Final = frozenset(
    {"name", "id", "title", "key", "path", "kind", "label", "code", "commit", "subject", "package", "tool"}
)
"""Members whose value identifies a JSON object."""
NAMING_DEPTH: Final = 2
"""Number of levels down to which the members of `NAMING` are looked for. For example, `metadata.name` of a Kubernetes
object also says to which object `spec` belongs.
"""
_HEADING: Final = re.compile(r"(#{1,6}) ")


class Unit(msgspec.Struct, frozen=True, gc=False):
    """A small part of one result."""

    source: str
    path: str
    """Path in a JSON document; empty in a text."""
    line: int
    """Line number in a text, or in a string of a JSON document, from 1; 0 for other JSON values."""
    text: str
    context: str
    """Text above or around the unit, which says to what the unit belongs."""

    @property
    def where(self) -> str:
        return " ".join(part for part in (self.path, f"line {self.line}" if self.line else "") if part)


def units(source: str, document: object, size: int, min_characters: int = 0) -> Iterator[Unit]:
    """Units of a text or a decoded JSON document, in order. `size`: approximate maximum of a unit's characters.
    `min_characters`: minimum number of characters of a unit of text, for which lines are combined.
    """
    cutter = _Cutter(source, size, min_characters)
    if isinstance(document, str):
        yield from cutter.text("", document, ())
    else:
        yield from cutter.document("$", document, ())


@dataclass(frozen=True)
class _Cutter:
    """Splits the texts and JSON documents of one source."""

    source: str
    size: int
    min_characters: int

    def text(self, path: str, text: str, context: tuple[str, ...]) -> Iterator[Unit]:
        """Units of a text at a path."""
        outline = _Outline()
        pending_lines: list[str] = []
        first_line, context_text = 0, ""
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                if pending_lines:
                    pending_lines.append(line)
                continue
            outline.leave(line)
            if pending_lines and len(line) > self.size * 2:
                yield Unit(self.source, path, first_line, "\n".join(pending_lines).rstrip(), context_text)
                pending_lines = []
            if not pending_lines:
                first_line = number
                context_text = " ".join([*context, *outline.words()])
            pending_lines.append(line)
            if sum(map(len, pending_lines)) >= self.min_characters:
                parts = _pieces("\n".join(pending_lines), self.size)
                yield from (Unit(self.source, path, first_line, part, context_text) for part in parts)
                pending_lines = []
            outline.enter(line)
        if pending_lines:
            yield Unit(self.source, path, first_line, "\n".join(pending_lines).rstrip(), context_text)

    def document(self, path: str, value: object, context: tuple[str, ...], depth: int = 0) -> Iterator[Unit]:
        """Units of a JSON value at a path: small scalar members are combined, large members are units of their own."""
        if isinstance(value, str):
            yield from self.text(path, value, context)
            return
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= self.size or depth == MAX_DEPTH or not isinstance(value, dict | list):
            context_text = " ".join(context)
            yield from (Unit(self.source, path, 0, part, context_text) for part in _pieces(text, self.size))
            return
        inner_context = (*context, *_names(value)) if isinstance(value, dict) else context
        scalars: dict[str, object] = {}
        characters_left = self.size
        for name, item in _members(value):
            if isinstance(item, dict | list) or _is_long(item, self.size):
                member_path = f"{path}.{name}" if isinstance(value, dict) else f"{path}{name}"
                member_context = (*inner_context, name) if isinstance(value, dict) else inner_context
                yield from self.document(member_path, item, member_context, depth + 1)
                continue
            encoded_size = len(json.dumps({name: item}, ensure_ascii=False))
            if scalars and encoded_size > characters_left:
                yield self._combine(path, scalars, inner_context)
                scalars, characters_left = {}, self.size
            scalars[name] = item
            characters_left -= encoded_size
        if scalars:
            yield self._combine(path, scalars, inner_context)

    def _combine(self, path: str, scalars: dict[str, object], context: tuple[str, ...]) -> Unit:
        return Unit(self.source, path, 0, json.dumps(scalars, ensure_ascii=False), " ".join(context))


class _Outline:
    """Lines above the current line to which the current line belongs, by indentation or by Markdown headings."""

    def __init__(self) -> None:
        self._enclosing_lines: list[tuple[int, str]] = []
        self._headings: dict[int, str] = {}

    def words(self) -> list[str]:
        """The nearest less indented lines, then the headings; both from the outermost to the innermost."""
        return [*(words for _, words in self._enclosing_lines[-MAX_ABOVE:]), *self._headings.values()]

    def leave(self, line: str) -> None:
        """Remove the lines and headings to which `line` does not belong."""
        heading = _HEADING.match(line)
        while self._enclosing_lines and (heading is not None or self._enclosing_lines[-1][0] >= _indent(line)):
            self._enclosing_lines.pop()
        if heading is not None:
            level = len(heading[1])
            self._headings = {other: words for other, words in self._headings.items() if other < level}

    def enter(self, line: str) -> None:
        """Add `line`, because the following lines may belong to it."""
        self._enclosing_lines.append((_indent(line), line[:MAX_ABOVE_CHARACTERS]))
        if (heading := _HEADING.match(line)) is not None:
            self._headings[len(heading[1])] = line[:MAX_ABOVE_CHARACTERS]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t-*"))


def _members(value: dict[str, object] | list[object]) -> Iterable[tuple[str, object]]:
    """Members of an object by name, or items of an array by their index in brackets."""
    return value.items() if isinstance(value, dict) else ((f"[{index}]", item) for index, item in enumerate(value))


def _pieces(line: str, size: int) -> Iterator[str]:
    """Split a long line after sentences or words, if possible."""
    if len(line) <= size * 2:
        yield line
        return
    start = 0
    while start < len(line):
        end = start + size
        if end < len(line):
            boundary = max(line.rfind(mark, start + size // 2, end) for mark in (". ", "。", "; ", " ", ","))
            end = end if boundary < 0 else boundary + 1
        yield line[start:end]
        start = end


def _is_long(value: object, size: int) -> bool:
    return isinstance(value, str) and (len(value) > size or "\n" in value)


def _names(value: dict[str, object]) -> list[str]:
    """Names of an object: values of its `NAMING` members, also of those in nested objects up to `NAMING_DEPTH` levels
    deep.
    """
    names: list[str] = []
    level: list[dict[str, object]] = [value]
    for _ in range(NAMING_DEPTH + 1):
        next_level: list[dict[str, object]] = []
        for nested in level:
            for member, item in nested.items():
                if isinstance(item, str) and member in NAMING and len(item) <= NAME_CHARACTERS:
                    names.append(item)
                elif isinstance(item, dict):
                    next_level.append(item)
        level = next_level
    return names[:MAX_NAMES]
