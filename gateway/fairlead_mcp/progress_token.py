"""The progress token in a raw `_meta` (MCP, Utilities, "Progress"), found without decoding what is around it.

Pure module. Clients repeat their `_meta` with each request, and nothing but the token is new in it. Compiled; `find`
stands in place of `in`, which makes an exception for every `bytes` that is looked for in others.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "progressToken"
_QUOTED: Final = b'"progressToken"'
_MEMBER: Final = b'"progressToken":'
_LENGTH: Final = len(_MEMBER)


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
        if not begin or meta[begin:end] != self.value or meta[begin - _LENGTH : begin] != _MEMBER:
            return None  # something was changed ahead of it
        return meta[:begin] + value + meta[end:]


def place_of(meta: bytes) -> tuple[int, int]:
    """Begin and end of the token's value in a `_meta`, which is valid JSON; (0, 0) where it takes decoding to find it,
    or where there is none. That of another object's member, if `meta` has no token itself.
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
