"""Removal of values that are nested too deeply to be decoded, so that the other entries of a list survive. No I/O."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

MAX_BYTES: Final = 1 << 20
"""Most bytes of a message that is repaired."""
MAX_OPENED: Final = 100_000
"""Most objects and arrays in a message that is repaired; the repair takes up to 60 ms of the event loop."""
MAX_DEPTH: Final = 100
"""Levels of nesting that remain; definitions with so many levels are never published."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_LISTS: Final = frozenset({"tools", "prompts", "resources", "resourceTemplates", "skills"})
"""Members of results that contain a list of definitions."""

_decode: Final = msgspec.json.Decoder().decode
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def remove_deep_values(message: bytes) -> bytes:
    """Replace values deeper than MAX_DEPTH by null in the response to a list request that is nested too deeply.

    Other messages are returned unchanged; a tool's result is never cut.
    """
    if len(message) > MAX_BYTES or b'"result"' not in message or not _is_too_deep(message):
        return message
    if message.count(b"{") + message.count(b"[") > MAX_OPENED:
        return message
    text = _cut(message)
    try:
        result = _decode_members(_decode_members(text).get("result", Raw(b"{}")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return message
    return message if _LISTS.isdisjoint(result) else text


def _is_too_deep(message: bytes) -> bool:
    try:
        _decode(message)
    except RecursionError:
        return True
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return False


def _cut(message: bytes) -> bytes:
    parts, start, depth = [], 0, 0
    for token in _TOKEN.finditer(message):
        character = message[token.start()]
        if character in b"{[":
            depth += 1
            if depth == MAX_DEPTH + 1:
                parts += [message[start : token.start()], b"null"]
        elif character in b"}]":
            if depth == MAX_DEPTH + 1:
                start = token.end()
            depth -= 1
    return b"".join([*parts, message[start:]])
