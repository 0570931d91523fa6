"""Finds and replaces the progress token in a raw `_meta` (MCP, Utilities, "Progress") without decoding it. No I/O.

Clients repeat their `_meta` with each request, and only the token differs. The module is compiled by mypyc, where
`find` is faster than `in`: `in` raises and drops a TypeError before it searches for `bytes`.
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
    """Progress token of one request: `value` is raw JSON, `begin` its offset in the request's `_meta`, 0 if unknown."""

    __slots__ = ("begin", "value")

    def __init__(self, value: bytes, begin: int = 0) -> None:
        self.value = value
        self.begin = begin

    def replace_in(self, meta: bytes, value: bytes) -> bytes | None:
        """Return a `_meta` with another token; None if that requires decoding it."""
        begin = self.begin
        end = begin + len(self.value)
        if not begin or end >= len(meta) or meta[begin:end] != self.value or meta[begin - _LENGTH : begin] != _MEMBER:
            return None  # text before the token has changed
        if meta[end] != _COMMA and meta[end] != _BRACE:
            return None  # a longer token that begins like this one
        return meta[:begin] + value + meta[end:]


def find_token(meta: bytes) -> tuple[int, int]:
    """Return begin and end of the token in a `_meta`; (0, 0) if finding it requires decoding.

    Only for a `_meta` that is valid JSON and has a token. Without a token, a member `progressToken` of a nested object
    may be returned.
    """
    begin = meta.find(_MEMBER)
    if begin < 0:
        return 0, 0
    if begin == 1 and meta[1 + _LENGTH : -1].isdigit():
        return 1 + _LENGTH, len(meta) - 1  # the token is the only member
    is_ambiguous = meta.find(_QUOTED) != begin or meta.find(_QUOTED, begin + 1) >= 0
    if is_ambiguous or meta.find(b"\\") >= 0:  # the name can be written with escapes
        return 0, 0
    begin += _LENGTH
    if meta[begin : begin + 1] == b'"':
        return begin, meta.find(b'"', begin + 1) + 1
    end = meta.find(b",", begin)
    if end < 0:
        end = len(meta) - 1
    return (begin, end) if meta[begin:end].isdigit() else (0, 0)
