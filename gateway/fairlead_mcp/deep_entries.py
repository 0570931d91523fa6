"""Lists with an entry that is nested too deeply to be read, which would take the whole list with it. Pure module."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

MAX_BYTES: Final = 1 << 20
MAX_OPENED: Final = 100_000
"""Objects and lists of a message that is looked through, which takes up to 60 ms of the event loop."""
KEPT_DEPTH: Final = 100
"""Objects and lists in each other that stay; an entry that reaches it is listed for nobody."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_LISTS: Final = frozenset({"tools", "prompts", "resources", "resourceTemplates", "skills"})
"""Members of results that list something."""

_decode: Final = msgspec.json.Decoder().decode
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def without_deep_values(message: bytes) -> bytes:
    """A response that lists something, with null for what is nested deeper than KEPT_DEPTH, where that is why it cannot
    be read. Any other message is returned as it is: what a tool answers is not cut.
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
            if depth == KEPT_DEPTH + 1:
                parts += [message[start : token.start()], b"null"]
        elif character in b"}]":
            if depth == KEPT_DEPTH + 1:
                start = token.end()
            depth -= 1
    return b"".join([*parts, message[start:]])
