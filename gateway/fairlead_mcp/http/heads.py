"""Cache of parsed HTTP heads, so that a message with a known head need not be parsed. No I/O.

A peer repeats its heads, in which only the value of Content-Length changes. The size of a message determines that
value, so one comparison of bytes replaces the parser: it takes 0.2 µs, and parsing with a Python callback per header
takes 3 to 6 µs. The comparison is safe, as equal bytes have the same meaning.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final

MAX_BYTES: Final = 8 << 10
"""Limit for the length of a cached head."""
_END: Final = b"\r\n\r\n"
_LENGTH_LINE: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,7})(?=\r\n)", re.IGNORECASE)
_FRAMING_HEADER: Final = re.compile(
    rb"\r\n(?:transfer-encoding|connection|upgrade|expect|trailer)[ \t]*:", re.IGNORECASE
)
"""Matches headers that change how a message is framed or its connection is used; a head with one is not cached."""
_LENGTH_HEADER: Final = re.compile(rb"\r\ncontent-length", re.IGNORECASE)
MAX_KEEP_ALIVE: Final = 60.0
"""Longest time in seconds for which an idle connection is kept, whatever the server's `Keep-Alive` is."""
_NAME_LINE: Final = re.compile(rb"\r\nmcp-name:[ \t]*([!-~]{1,256})(?=\r\n)", re.IGNORECASE)
_NAME_HEADER: Final = re.compile(rb"\r\nmcp-name", re.IGNORECASE)
_VISIBLE: Final = re.compile(rb"[!-~]{1,256}")
_NAME_LIMIT: Final = 257
_DIGITS: Final = 7
ENTRY_BYTES: Final = 300
"""Approximate overhead of an entry in bytes."""
_SHORT_LENGTHS: Final = tuple(str(length).encode() for length in range(2048))
"""Values of Content-Length for the bodies of most calls. Writing a number takes 400 instructions, a look-up 20."""


def length_value(length: int) -> bytes:
    """Write the value of Content-Length."""
    return _SHORT_LENGTHS[length] if length < len(_SHORT_LENGTHS) else str(length).encode()


class CacheBudget:
    """Shared limit of several caches: beyond `entries` or `size` bytes, the oldest entry of all is dropped."""

    __slots__ = ("_entries", "_heads", "_max_bytes", "_max_entries", "size")

    def __init__(self, entries: int, size: int) -> None:
        self._max_entries = entries
        self._max_bytes = size
        self._entries: deque[tuple[dict[Any, Any], Any, int]] = deque()
        self._heads: dict[tuple[bytes, bytes], KnownHead] = {}
        self.size = 0
        """Approximate size in bytes."""

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, table: dict[Any, Any], key: object, value: object, size: int) -> None:
        """Add an entry of `size` bytes to a table, which must not have the key yet."""
        table[key] = value
        size += ENTRY_BYTES
        self._entries.append((table, key, size))
        self.size += size
        while self.size > self._max_bytes or len(self._entries) > self._max_entries:
            oldest = self._entries.popleft()
            oldest[0].pop(oldest[1], None)
            self.size -= oldest[2]

    def share(self, head: KnownHead) -> KnownHead:
        """Return an equal head from the cache, or else add this one."""
        equal_head = self._heads.get(head.parts)
        if equal_head is not None:
            return equal_head
        self.keep(self._heads, head.parts, head, head.size)
        return head


class KnownHead:
    """Parsed head, without the value of its Content-Length."""

    __slots__ = ("_budget", "_by_size", "parts", "size")

    def __init__(self, before: bytes, after: bytes, budget: CacheBudget) -> None:
        self.parts = (before, after)
        """Bytes before the value of Content-Length, and after it."""
        self.size = len(before) + len(after)
        self._budget = budget
        self._by_size: dict[int, bytes] = {}

    @classmethod
    def of(cls, message: bytes, budget: CacheBudget) -> KnownHead | None:
        """Make the head of a message that the parser has accepted as exactly one message.

        None if the head has framing headers besides one Content-Length, or if the body has another length.
        """
        end = message.find(_END, 0, MAX_BYTES) + len(_END)
        if end < len(_END):
            return None
        head = message[:end]
        length = _LENGTH_LINE.search(head)
        if length is None or len(_LENGTH_HEADER.findall(head)) != 1 or _FRAMING_HEADER.search(head):
            return None
        if int(length[1]) != len(message) - end:
            return None
        return cls(head[: length.start(1)], head[length.end(1) :], budget)

    def body_start(self, message: bytes) -> int:
        """Return the offset of the body if `message` is exactly one message with this head; else 0."""
        size = len(message)
        head = self._by_size.get(size)
        if head is None:
            before, after = self.parts
            head = _with_length(before, size - self.size, after)
            self._budget.keep(self._by_size, size, head, len(head))
        return len(head) if message.startswith(head) else 0


class NamedHead:
    """Parsed head of a request, without the values of Content-Length and `Mcp-Name`, which change with the tool."""

    __slots__ = ("_budget", "_by_size", "_first", "_last", "_length_first", "_line", "_middle")

    def __init__(
        self, first: bytes, middle: bytes, last: bytes, line: bytes, budget: CacheBudget, *, length_first: bool
    ) -> None:
        self._first = first
        self._middle = middle
        self._last = last
        self._line = line
        """Line up to the value of `Mcp-Name`."""
        self._length_first = length_first
        self._budget = budget
        self._by_size: dict[int, bytes] = {}
        """The part of the head that has the Content-Length, by the size of the message without the name."""

    @classmethod
    def of(cls, message: bytes, budget: CacheBudget) -> NamedHead | None:
        """Make the head of a message that `KnownHead.of` accepts; None unless it has exactly one visible `Mcp-Name`."""
        head = message[: message.find(_END, 0, MAX_BYTES) + len(_END)]
        length, name = _LENGTH_LINE.search(head), _NAME_LINE.search(head)
        if length is None or name is None or len(_NAME_HEADER.findall(head)) != 1:
            return None
        first, other = sorted((length.span(1), name.span(1)))
        return cls(
            head[: first[0]],
            head[first[1] : other[0]],
            head[other[1] :],
            head[name.start() : name.start(1)],
            budget,
            length_first=length.start() < name.start(),
        )

    def read(self, message: bytes, names: dict[bytes, Any]) -> tuple[int, bytes] | None:
        """Return the offset of the body and the name if `message` is exactly one message with this head; else None.

        `names` has valid names, which are not checked again.
        """
        first_part = self._first
        at = message.find(self._line, 0, MAX_BYTES) + len(self._line) if self._length_first else len(first_part)
        end = message.find(b"\r", at, at + _NAME_LIMIT)
        if end < 0:
            return None
        size = len(message) - (end - at)
        second_part = self._by_size.get(size)
        if second_part is None:
            second_part = self._make_part(size)
        if self._length_first:
            first_part, second_part = second_part, self._last
        if len(first_part) != at or not second_part:
            return None
        if not message.startswith(first_part) or not message.startswith(second_part, end):
            return None
        name = message[at:end]
        return (end + len(second_part), name) if name in names or _VISIBLE.fullmatch(name) else None

    def _make_part(self, size: int) -> bytes:
        """Make an entry of `_by_size`; empty if no message of that size can have this head."""
        rest = size - len(self._first) - len(self._middle) - len(self._last)
        if self._length_first:
            part = _with_length(self._first, rest, self._middle)
        else:
            part = _with_length(self._middle, rest, self._last)
        self._budget.keep(self._by_size, size, part, len(part))
        return part


def _with_length(before: bytes, size: int, after: bytes) -> bytes:
    """Join `before`, a Content-Length and `after`, where the length's digits and the body have `size` bytes together;
    empty if no length fits.
    """
    body = size - len(str(size - len(str(size))))
    return b"%b%d%b" % (before, body, after) if body >= 0 and size - body == len(str(body)) <= _DIGITS else b""


def keep_alive_seconds(value: bytes) -> float | None:
    """Return how long to keep a connection after `Keep-Alive: timeout=N`: a second less than the server does."""
    for part in value.lower().split(b","):
        name, _, number = part.strip().partition(b"=")
        if name == b"timeout" and number.strip().isdigit():
            seconds = int(number)
            return min(max(seconds - 1.0, seconds / 2), MAX_KEEP_ALIVE)
    return None
