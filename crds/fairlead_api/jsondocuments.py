"""JSON parser for hand-edited files: allows comments and trailing commas, and records the line of every member.

Other deviations from JSON are faults (RFC 8259). A fault raises `UnreadableJson` with line and column. A repeated key
is reported in `JsonDocument.repeated`, and the rest of the text is still parsed. This module has no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MAX_DEPTH: Final = 200
"""Maximum nesting depth of lists and objects."""
_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)+", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"', re.DOTALL)
_UNFINISHED: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*', re.DOTALL)
"""Beginning of a string, up to the first character that a string cannot contain."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z_$][\w$-]*")
_WORDS: Final = {"true": True, "false": False, "null": None}
_SHOWN: Final = 30

Place = tuple[str | int, ...]


class UnreadableJson(ValueError):
    """Text that is not valid JSON; the message describes the fault."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        """Line number, from 1."""
        self.column = column
        """Column number in characters, from 1."""


@dataclass(frozen=True)
class RepeatedKey:
    """A key that occurs a second time in its object; the first value counts."""

    path: Place
    line: int
    first_line: int


@dataclass(frozen=True)
class JsonDocument:
    """A parsed text: its content, and the line of every member."""

    content: Any
    line: int
    _lines: dict[Place, int] = field(repr=False)
    repeated: tuple[RepeatedKey, ...] = ()

    def line_of(self, path: Sequence[str | int]) -> int:
        """Line of the member at `path`, or of the closest existing member around it."""
        steps = tuple(path)
        while steps and steps not in self._lines:
            steps = steps[:-1]
        return self._lines.get(steps, self.line)


def parse_json(text: str) -> JsonDocument | None:
    """Parse one text; None if the text has only blanks and comments. Raises UnreadableJson."""
    reader = _JsonReader(text.removeprefix("\N{BYTE ORDER MARK}"))
    return reader.document()


class _JsonReader:
    """Recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[Place, int] = {}
        self._repeated: list[RepeatedKey] = []
        self._counted_at = 0
        """Offset up to which line ends have been counted."""
        self._counted = 1
        """Line number at the offset `_counted`."""

    def document(self) -> JsonDocument | None:
        self._skip()
        if self._at == len(self._text):
            return None
        line = self._line(self._at)
        content = self._value(())
        self._skip()
        if self._at < len(self._text):
            raise self._bad(f"unexpected text after the value: {self._next_text()}")
        return JsonDocument(content, line, self._lines, tuple(self._repeated))

    def _value(self, path: Place) -> Any:
        if len(path) > MAX_DEPTH:
            raise self._bad(f"lists and objects are nested more than {MAX_DEPTH} deep")
        char = self._text[self._at : self._at + 1]
        if char == "{":
            return self._object(path)
        if char == "[":
            return self._list(path)
        if char == '"':
            return self._string()
        if number := _NUMBER.match(self._text, self._at):
            return self._number(number)
        word = _WORD.match(self._text, self._at)
        if word and word.group() in _WORDS:
            self._at = word.end()
            return _WORDS[word.group()]
        if word:
            raise self._bad(f"{word.group()[:_SHOWN]} needs double quotes")
        raise self._bad(f"a value is missing before {self._next_text()}" if char else "a value is missing at the end")

    def _object(self, path: Place) -> dict[str, Any]:
        members: dict[str, Any] = {}
        opened = self._at
        self._at += 1
        while not self._closes("}", opened):
            key_at = self._at
            if self._text[key_at] != '"':
                raise self._bad(f"a name in double quotes is missing before {self._next_text()}")
            key = self._string()
            line, inner = self._line(key_at), (*path, key)
            self._skip()
            if self._text[self._at : self._at + 1] != ":":
                raise self._bad(f"a colon is missing after {json.dumps(key, ensure_ascii=False)[: _SHOWN + 2]}")
            self._at += 1
            self._skip()
            if key in members:
                self._repeated.append(RepeatedKey(inner, line, self._lines[inner]))
                self._value((*path, key, "\0"))  # parsed only to skip it, under a path that cannot occur
            else:
                self._lines[inner] = line
                members[key] = self._value(inner)
            self._read_separator("}", opened)
        return members

    def _list(self, path: Place) -> list[Any]:
        items: list[Any] = []
        opened = self._at
        self._at += 1
        while not self._closes("]", opened):
            inner = (*path, len(items))
            self._lines[inner] = self._line(self._at)
            items.append(self._value(inner))
            self._read_separator("]", opened)
        return items

    def _closes(self, bracket: str, opened: int) -> bool:
        """Whether the bracket is next, also after a trailing comma. If so, it is consumed."""
        self._skip()
        if self._at >= len(self._text):
            raise self._unclosed_fault(opened)
        if self._text[self._at] != bracket:
            return False
        self._at += 1
        return True

    def _read_separator(self, bracket: str, opened: int) -> None:
        self._skip()
        if self._at >= len(self._text):
            raise self._unclosed_fault(opened)
        if self._text[self._at] == ",":
            self._at += 1
        elif self._text[self._at] != bracket:
            raise self._bad(f"a comma or {bracket} is missing before {self._next_text()}")

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._bad(self._string_fault())
        try:
            value: str = json.loads(match.group())
        except ValueError as error:
            raise self._bad("a string has a \\ that is not an escape: write a backslash as \\\\") from error
        self._at = match.end()
        return value

    def _string_fault(self) -> str:
        """Why the text at the current position is not a string."""
        beginning = _UNFINISHED.match(self._text, self._at)
        end = beginning.end() if beginning is not None else self._at
        control = self._text[end : end + 1]
        if control in ("", "\r", "\n", "\\"):
            return "the closing quote of this string is missing on its line"
        if control == "\t":
            return "this string contains a tab: write \\t"
        return f"this string contains the control character U+{ord(control):04X}: write \\u{ord(control):04x}"

    def _number(self, match: re.Match[str]) -> Any:
        try:
            value = json.loads(match.group())
        except ValueError as error:  # more digits than Python converts (`sys.set_int_max_str_digits`)
            raise self._bad(f"the number {match.group()[:_SHOWN]}… is too long") from error
        self._at = match.end()
        return value

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        if blank is not None:
            self._at = blank.end()

    def _next_text(self) -> str:
        rest = self._text[self._at : self._at + _SHOWN].split("\n")[0].strip()
        return rest or "the end of the text"

    def _unclosed_fault(self, opened: int) -> UnreadableJson:
        return self._bad(f"the text ends before the {self._text[opened]} of line {self._counted_to(opened)} is closed")

    def _bad(self, message: str) -> UnreadableJson:
        at = min(self._at, len(self._text))
        return UnreadableJson(message, self._counted_to(at), at - (self._text.rfind("\n", 0, at) + 1) + 1)

    def _line(self, at: int) -> int:
        """Line of a position. Positions must not decrease from call to call."""
        self._counted += self._text.count("\n", self._counted_at, at)
        self._counted_at = at
        return self._counted

    def _counted_to(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1
