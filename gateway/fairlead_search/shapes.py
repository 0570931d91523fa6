"""Describes the shape of a result: paths of a JSON document, rows and columns of a table, or lines of a text.

Pure module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

MAX_PATHS: Final = 40
"""Maximum number of lines of a description."""
MAX_COLUMNS: Final = 40
"""Maximum number of members of an object, or of columns of a table, that are named."""
MAX_DEPTH: Final = 8
EXAMINED_ITEMS: Final = 50
"""Number of leading items of an array that are examined."""
MAX_NAME_CHARACTERS: Final = 60
"""Maximum number of characters of one name."""
TABLE_ROWS: Final = 5
"""Minimum number of lines with the same number of columns for a text to count as a table."""
_DELIMITERS: Final = "\t,;|"
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def shape(document: object) -> list[str]:
    """Describe a text or a decoded JSON document: one line per path, with its type, rows and columns."""
    if isinstance(document, str):
        return [_describe_text(document)]
    lines: list[str] = []
    for line in _describe_json(document, "$", 0):
        if len(lines) == MAX_PATHS:
            lines.append("…")
            break
        lines.append(line)
    return lines


def type_of(value: object) -> str:
    """Name of a JSON value's type in JSON Schema."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "null" if value is None else "array"


def step(name: str) -> str:
    """Format a member's name as a step of a path."""
    short_name = name if len(name) <= MAX_NAME_CHARACTERS else name[:MAX_NAME_CHARACTERS] + "…"
    return f".{short_name}" if _PLAIN_NAME.fullmatch(short_name) else f"['{short_name}']"


def _describe_json(value: object, path: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{path}: object, {_count(len(value), 'member')}"
        if depth < MAX_DEPTH:
            yield from _members(value, path, depth)
    elif isinstance(value, list):
        yield f"{path}: array, {_count(len(value), 'row')}{_items(value)}"
        if depth < MAX_DEPTH:
            yield from _nested_rows(value[:EXAMINED_ITEMS], path, depth)
    else:
        yield f"{path}: {type_of(value)}{_length(value)}"


def _members(value: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
    for number, (name, member) in enumerate(value.items()):
        if number == MAX_COLUMNS:
            yield f"{path}: {len(value) - number:,} further members"
            return
        yield from _describe_json(member, path + step(name), depth + 1)


def _items(rows: Sequence[Any]) -> str:
    """Describe the items of an array: columns of objects, or types of other items."""
    examined_rows = rows[:EXAMINED_ITEMS]
    columns: dict[str, set[str]] = {}
    for row in examined_rows:
        if isinstance(row, dict):
            for name, value in row.items():
                columns.setdefault(name, set()).add(type_of(value))
    if columns:
        column_texts = [
            f"{name[:MAX_NAME_CHARACTERS]} ({'|'.join(sorted(types))})"
            for name, types in [*columns.items()][:MAX_COLUMNS]
        ]
        more = f" and {len(columns) - MAX_COLUMNS:,} more" if len(columns) > MAX_COLUMNS else ""
        return f"; columns {', '.join(column_texts)}{more}"
    types = sorted({type_of(row) for row in examined_rows})
    return f" of {'|'.join(types)}" if types else ""


def _nested_rows(rows: Sequence[Any], path: str, depth: int) -> Iterator[str]:
    """Describe arrays and objects inside the rows. For each column, the first row with a nested value is described."""
    described_columns: set[str] = set()
    for row in rows:
        if isinstance(row, dict):
            for name, value in row.items():
                if (
                    isinstance(value, dict | list)
                    and value
                    and name not in described_columns
                    and len(described_columns) < MAX_COLUMNS
                ):
                    described_columns.add(name)
                    yield from _describe_json(value, f"{path}[0]{step(name)}", depth + 1)
        elif isinstance(row, list) and row and not described_columns:
            described_columns.add("")
            yield from _describe_json(row, f"{path}[0]", depth + 1)


def _length(value: object) -> str:
    if not isinstance(value, str) or len(value) <= MAX_NAME_CHARACTERS:
        return ""
    lines = len(value.splitlines())
    return f", {lines:,} lines, {len(value):,} characters" if lines > 1 else f", {len(value):,} characters"


def _describe_text(text: str) -> str:
    lines = text.splitlines()
    summary = f"text, {_count(len(lines), 'line')}, {len(text):,} characters"
    names = _columns([line for line in lines[: TABLE_ROWS * 2] if line.strip()])
    if not names:
        return summary
    shown_names = ", ".join(name[:MAX_NAME_CHARACTERS] for name in names[:MAX_COLUMNS])
    more_text = f" and {len(names) - MAX_COLUMNS:,} more" if len(names) > MAX_COLUMNS else ""
    return f"{summary}; table of {_count(max(0, len(lines) - 1), 'row')}, columns {shown_names}{more_text}"


def _columns(lines: Sequence[str]) -> list[str]:
    """Names in the first line of a table with a delimiter; empty if the lines are not a table."""
    if len(lines) < TABLE_ROWS:
        return []
    unquoted_lines = [_QUOTED.sub("", line) for line in lines]
    for delimiter in _DELIMITERS:
        counts = {line.count(delimiter) for line in unquoted_lines}
        if len(counts) == 1 and counts != {0}:
            return [name.strip().strip('"') for name in lines[0].strip().strip("|").split(delimiter)]
    return []


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
