"""Cuts the results of tools into small units, each with the text around it that says what it is about. Pure module.

A unit of a text is a line, or a part of a long one, about which the less indented lines above it and the headings of
its sections say something; that of a JSON document is a small value, or a few scalar members of an object or a list,
about which the names of the objects around them do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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
    if isinstance(document, str):
        yield from _of_text(source, "", document, (), size, least)
    else:
        yield from _of_json(source, document, "$", (), size, least, 0)


def _of_text(source: str, path: str, text: str, about: tuple[str, ...], size: int, least: int) -> Iterator[Unit]:
    above: list[tuple[int, str]] = []
    headings: dict[int, str] = {}
    held: list[str] = []
    first, around = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            if held:
                held.append(line)
            continue
        indent = len(line) - len(line.lstrip(" \t-*"))
        heading = _HEADING.match(line)
        while above and (heading is not None or above[-1][0] >= indent):
            above.pop()
        if heading is not None:
            headings = {level: words for level, words in headings.items() if level < len(heading[1])}
        if held and len(line) > size * 2:
            yield Unit(source, path, first, "\n".join(held).rstrip(), around)
            held = []
        if not held:
            first = number
            around = " ".join([*about, *(words for _, words in above[-MAX_ABOVE:]), *headings.values()])
        held.append(line)
        if sum(map(len, held)) >= least:
            yield from (Unit(source, path, first, part, around) for part in _pieces("\n".join(held), size))
            held = []
        above.append((indent, line[:MAX_ABOVE_CHARACTERS]))
        if heading is not None:
            headings[len(heading[1])] = line[:MAX_ABOVE_CHARACTERS]
    if held:
        yield Unit(source, path, first, "\n".join(held).rstrip(), around)


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


def _of_json(
    source: str, value: object, path: str, about: tuple[str, ...], size: int, least: int, depth: int
) -> Iterator[Unit]:
    if isinstance(value, str):
        yield from _of_text(source, path, value, about, size, least)
        return
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= size or depth == MAX_DEPTH or not isinstance(value, dict | list):
        around = " ".join(about)
        yield from (Unit(source, path, 0, part, around) for part in _pieces(text, size))
        return
    inner = (*about, *_names(value)) if isinstance(value, dict) else about
    scalars: dict[str, object] = {}
    room = size
    named = value.items() if isinstance(value, dict) else ((f"[{index}]", item) for index, item in enumerate(value))
    for name, item in named:
        if isinstance(item, dict | list) or _is_long(item, size):
            own = f"{path}.{name}" if isinstance(value, dict) else f"{path}{name}"
            inside = (*inner, name) if isinstance(value, dict) else inner
            yield from _of_json(source, item, own, inside, size, least, depth + 1)
            continue
        written = len(json.dumps({name: item}, ensure_ascii=False))
        if scalars and written > room:
            yield Unit(source, path, 0, json.dumps(scalars, ensure_ascii=False), " ".join(inner))
            scalars, room = {}, size
        scalars[name] = item
        room -= written
    if scalars:
        yield Unit(source, path, 0, json.dumps(scalars, ensure_ascii=False), " ".join(inner))


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
