"""The progress token in a raw `_meta` (MCP, Utilities, "Progress"), found without decoding what is around it.

Pure module. Clients repeat their `_meta` with each request, and nothing but the token is new in it. Compiled; `find`
stands in place of `in`, as that raises and drops a TypeError before it looks for `bytes` in others.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "progressToken"
_QUOTED: Final = b'"progressToken"'
_MEMBER: Final = b'"progressToken":'
_LENGTH: Final = len(_MEMBER)
_COMMA: Final = 44
_BRACE: Final = 125


class ProgressToken:
    """Token of one request: `value` in raw JSON, and where that begins in the request's `_meta`; 0 where it is not
    known.
    """

    __slots__ = ("begin", "value")

    def __init__(self, value: bytes, begin: int = 0) -> None:
        self.value = value
        self.begin = begin

    def replaced_in(self, meta: bytes, value: bytes) -> bytes | None:
        """The `_meta` with another value of its token; None where that takes decoding."""
        begin = self.begin
        end = begin + len(self.value)
        if not begin or end >= len(meta) or meta[begin:end] != self.value or meta[begin - _LENGTH : begin] != _MEMBER:
            return None  # something was changed ahead of it
        if meta[end] != _COMMA and meta[end] != _BRACE:
            return None  # it is another token, which begins like this one
        return meta[:begin] + value + meta[end:]


def place_of(meta: bytes) -> tuple[int, int]:
    """Begin and end of the token's value in a `_meta`, which is valid JSON and, as the caller has to know, has a token:
    without one it may be that of an object within. (0, 0) where it takes decoding to find it, or nothing looks like it.
    """
    begin = meta.find(_MEMBER)
    if begin < 0:
        return 0, 0
    if begin == 1 and meta[1 + _LENGTH : -1].isdigit():
        return 1 + _LENGTH, len(meta) - 1  # it is the only member
    others = meta.find(_QUOTED) != begin or meta.find(_QUOTED, begin + 1) >= 0
    if others or meta.find(b"\\") >= 0:  # a name can be written with escapes too
        return 0, 0
    begin += _LENGTH
    if meta[begin : begin + 1] == b'"':
        return begin, meta.find(b'"', begin + 1) + 1
    end = meta.find(b",", begin)
    if end < 0:
        end = len(meta) - 1
    return (begin, end) if meta[begin:end].isdigit() else (0, 0)
