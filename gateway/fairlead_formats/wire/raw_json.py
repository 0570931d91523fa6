"""Helpers for JSON of clients and providers that the gateway does not interpret. Pure module.

`add_usage` sums the token usage of several rounds at any depth. No function raises for what a client or provider wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

_decode: Final = msgspec.json.Decoder().decode


class _ErrorBody(msgspec.Struct):
    error: Raw


def decode_object(raw: bytes | Raw) -> dict[str, Any]:
    """The decoded object; an empty object for anything else, such as text that is not JSON."""
    try:
        message = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def text_of(content: object) -> str:
    """The text of a message's `content`, which is a string or a list of parts with `text`."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def array(items: Sequence[bytes | Raw]) -> bytes:
    """A JSON array of encoded items."""
    return b"[" + b",".join(bytes(item) for item in items) + b"]"


def error_in(body: bytes) -> bytes | None:
    """The encoded member `error` of a provider's answer, an object or a string; None without an error."""
    try:
        raw = bytes(msgspec.json.decode(body, type=_ErrorBody).error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return raw if raw[:1] in (b"{", b'"') else None


MAX_DEPTH: Final = 8
MAX_MEMBERS: Final = 64
"""Maximum number of members of a summed object; further members of the second usage are left out."""
MAX_LISTED: Final = 64
"""Maximum number of entries of two lists together. If they have more, the second list is used unchanged."""


def add_usage(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """The sum of two usages, member by member. A member of only one usage is copied. Of two values that are not numbers
    the second is used. Two objects in lists are added if only their numbers differ, as in token details per modality.
    """
    total = dict(first or {})
    for name, value in (second or {}).items():
        if name not in total and len(total) >= MAX_MEMBERS:
            continue
        earlier_value = total.get(name)
        if isinstance(value, dict) and isinstance(earlier_value, dict) and depth:
            total[name] = add_usage(earlier_value, value, depth - 1)
        elif isinstance(value, list) and isinstance(earlier_value, list) and depth:
            total[name] = _add_lists(earlier_value, value, depth - 1)
        elif _number(value) and _number(earlier_value):
            total[name] = earlier_value + value
        elif value is not None or name not in total:
            total[name] = value
    return total


def _add_lists(first: list[Any], second: list[Any], depth: int) -> list[Any]:
    if len(first) + len(second) > MAX_LISTED:
        return second
    total = list(first)
    for entry in second:
        index = next((index for index, candidate in enumerate(total) if _have_equal_labels(candidate, entry)), None)
        if index is None:
            total.append(entry)
        else:
            total[index] = add_usage(total[index], entry, depth)
    return total


def _have_equal_labels(first: object, second: object) -> bool:
    """Whether two list entries describe the same thing: their members are equal apart from numbers."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return False
    return _labels(first) == _labels(second) != {}


def _labels(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if not _number(value)}


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
