"""Message heads that were read before, so that the next message with the same one need not be parsed.

Pure module: no I/O. Used by `fairlead_mcp.http.connection` for answers and by the gateway for requests. A peer repeats
its heads: all that differs from one message to the next is the length of the body. From the size of a message follows
the only head of that kind that it can have, so one comparison tells: 0.2 µs, where parsing costs 3 to 6 (a callback
into Python for every header). It cannot be understood differently: equal bytes mean the same.
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
_SIZES: Final = 64
"""Sizes of messages, of each head, whose head is remembered."""
_NAMES: Final = 256
"""Names, of each head, that are remembered."""


class KnownHead:
    """A head with a hole where the value of its one Content-Length was."""

    __slots__ = ("_after", "_before", "_of_size")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._of_size: dict[int, bytes] = {}

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
        size = len(message)
        head = self._of_size.get(size)
        if head is None:
            head = self._expected(size)
        return len(head) if message.startswith(head) else 0

    def _expected(self, size: int) -> bytes:
        """What a message of that size begins with if it has this head; empty where none of that size has it."""
        rest = size - len(self._before) - len(self._after)
        digits = len(str(rest - len(str(rest))))
        body = rest - digits
        fits = body >= 0 and digits == len(str(body)) <= _DIGITS
        if len(self._of_size) >= _SIZES:
            self._of_size.clear()
        head = self._of_size[size] = b"%b%d%b" % (self._before, body, self._after) if fits else b""
        return head


class NamedHead:
    """A head of a request with two holes: its length, and the value of its one `Mcp-Name`, which is another whenever a
    client calls another tool.
    """

    __slots__ = ("_first", "_last", "_length_first", "_line", "_middle", "_of_name")

    def __init__(self, first: bytes, middle: bytes, last: bytes, line: bytes, *, length_first: bool) -> None:
        self._first = first
        self._middle = middle
        self._last = last
        self._line = line
        """What the name follows."""
        self._length_first = length_first
        self._of_name: dict[bytes, KnownHead] = {}

    @classmethod
    def of(cls, message: bytes) -> NamedHead | None:
        """The head of a message that `KnownHead.of` takes; None where it has no name, several, or an odd one."""
        head = message[: message.find(_END, 0, MAX_BYTES) + len(_END)]
        length, name = _LENGTH.search(head), _NAMED.search(head)
        if length is None or name is None or len(_NAMED_NAME.findall(head)) != 1:
            return None
        one, other = sorted((length.span(1), name.span(1)))
        return cls(
            head[: one[0]], head[one[1] : other[0]], head[other[1] :], head[name.start() : name.start(1)],
            length_first=length.start() < name.start(),
        )  # fmt: skip

    def read(self, message: bytes) -> tuple[int, bytes] | None:
        """Where the body begins and what the name is, if `message` is exactly one message with this head."""
        at = message.find(self._line, 0, MAX_BYTES) + len(self._line)
        name = message[at : message.find(b"\r", at, at + _MOST)]
        head = self._of_name.get(name)
        if head is None:
            if not _VISIBLE.fullmatch(name):
                return None
            head = self._with(name)
        start = head.body_start(message)
        return (start, name) if start else None

    def _with(self, name: bytes) -> KnownHead:
        if len(self._of_name) >= _NAMES:
            self._of_name.clear()
        if self._length_first:
            head = KnownHead(self._first, self._middle + name + self._last)
        else:
            head = KnownHead(self._first + name + self._middle, self._last)
        self._of_name[name] = head
        return head
