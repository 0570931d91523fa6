"""Message heads that were read before, so that the next message with the same one need not be parsed.

Pure module: no I/O. Used by `fairlead_mcp.http.connection` for answers and by the gateway for requests. A peer repeats
its heads: all that differs from one message to the next is the length of the body. Comparing bytes with a head that
the parser accepted at the same place of the same connection costs 0.4 µs, parsing it anew 3 to 6 (a callback into
Python for every header), and it cannot be understood differently: equal bytes mean the same.
"""

from __future__ import annotations

import re
from typing import Final

MAX_BYTES: Final = 8 << 10
"""Longer heads are not worth keeping."""
_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"(?<=\r\n)content-length:[ \t]*([0-9]{1,7})(?=\r\n)", re.IGNORECASE)
_NEVER: Final = re.compile(rb"\r\n(?:transfer-encoding|connection|upgrade|expect|trailer)[ \t]*:", re.IGNORECASE)
_LENGTH_NAME: Final = re.compile(rb"\r\ncontent-length", re.IGNORECASE)
_NAMED: Final = re.compile(rb"\r\nmcp-name:[ \t]*([!-~]{1,256})(?=\r\n)", re.IGNORECASE)
_NAMED_NAME: Final = re.compile(rb"\r\nmcp-name", re.IGNORECASE)
_VISIBLE: Final = re.compile(rb"[!-~]{1,256}")
_MOST: Final = 257
_DIGITS: Final = 7


class KnownHead:
    """A head with a hole where the value of its one Content-Length was."""

    __slots__ = ("_after", "_before", "_hole")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._hole = len(before)

    @classmethod
    def of(cls, message: bytes) -> KnownHead | None:
        """The head of a message that a parser has just accepted as one whole message and nothing more.

        None where it says anything about its framing but its length, or what follows it has another length.
        """
        end = message.find(_END, 0, MAX_BYTES) + len(_END)
        if end < len(_END):
            return None
        head = message[:end]
        length = _LENGTH.search(head)
        if length is None or len(_LENGTH_NAME.findall(head)) != 1 or _NEVER.search(head):
            return None
        if int(length[1]) != len(message) - end:
            return None
        return cls(head[: length.start(1)], head[length.end(1) :])

    def body_start(self, message: bytes) -> int:
        """Where the body begins if `message` is exactly one message with this head; 0 if it is anything else."""
        if not message.startswith(self._before):
            return 0
        hole = self._hole
        end = message.find(b"\r", hole, hole + 8)
        if end < 0 or not message.startswith(self._after, end):
            return 0
        start = end + len(self._after)
        digits = message[hole:end]
        return start if digits.isdigit() and int(digits) == len(message) - start else 0


class NamedHead:
    """A head of a request with two holes: its length, and the value of its one `Mcp-Name`, which is another whenever a
    client calls another tool.
    """

    __slots__ = ("_first", "_last", "_length_first", "_middle")

    def __init__(self, first: bytes, middle: bytes, last: bytes, *, length_first: bool) -> None:
        self._first = first
        self._middle = middle
        self._last = last
        self._length_first = length_first

    @classmethod
    def of(cls, message: bytes) -> NamedHead | None:
        """The head of a message that `KnownHead.of` takes; None where it has no name, several, or an odd one."""
        head = message[: message.find(_END, 0, MAX_BYTES) + len(_END)]
        length, name = _LENGTH.search(head), _NAMED.search(head)
        if length is None or name is None or len(_NAMED_NAME.findall(head)) != 1:
            return None
        one, other = sorted((length.span(1), name.span(1)))
        return cls(
            head[: one[0]], head[one[1] : other[0]], head[other[1] :], length_first=length.start() < name.start()
        )

    def read(self, message: bytes) -> tuple[int, bytes] | None:
        """Where the body begins and what the name is, if `message` is exactly one message with this head."""
        one = len(self._first)
        if not message.startswith(self._first):
            return None
        one_end = message.find(b"\r", one, one + _MOST)
        if one_end < 0 or not message.startswith(self._middle, one_end):
            return None
        other = one_end + len(self._middle)
        other_end = message.find(b"\r", other, other + _MOST)
        if other_end < 0 or not message.startswith(self._last, other_end):
            return None
        length, name = message[one:one_end], message[other:other_end]
        if not self._length_first:
            length, name = name, length
        start = other_end + len(self._last)
        if len(length) > _DIGITS or not length.isdigit() or int(length) != len(message) - start:
            return None
        return (start, name) if _VISIBLE.fullmatch(name) else None
