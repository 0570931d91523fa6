"""JSON of clients and providers whose members have no meaning here: it goes on as it came, or its numbers are added.

Pure module, which takes whatever a client or a provider wrote. Added are the usages of several rounds, at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

_any: Final = msgspec.json.Decoder().decode


class _ErrorBody(msgspec.Struct):
    error: Raw


def decode_object(raw: bytes | Raw) -> dict[str, Any]:
    """The decoded object; an empty one for anything else."""
    try:
        message = _any(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def text_of(content: object) -> str:
    """Text of a message's content: a text, or a list of parts of which some hold text."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def array(items: Sequence[bytes | Raw]) -> bytes:
    """A JSON array of raw items."""
    return b"[" + b",".join(bytes(item) for item in items) + b"]"


def error_in(body: bytes) -> bytes | None:
    """The raw member `error` of a provider's answer; None where there is none."""
    try:
        raw = bytes(msgspec.json.decode(body, type=_ErrorBody).error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return raw if raw[:1] in (b"{", b'"') else None


MAX_DEPTH: Final = 8
MAX_MEMBERS: Final = 64
"""Members of an object that are added; further ones of the later usage are left out."""
MAX_LISTED: Final = 64
"""Entries of a list that are added; of a longer one the later counts."""


def add_usage(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """The sum of two usages. A member that only one of them has stays as it is; of members that are not numbers the
    later one counts. Objects in lists are added where they differ in numbers alone, such as the details of one
    modality.
    """
    total = dict(first or {})
    for name, value in (second or {}).items():
        if name not in total and len(total) >= MAX_MEMBERS:
            continue
        earlier = total.get(name)
        if isinstance(value, dict) and isinstance(earlier, dict) and depth:
            total[name] = add_usage(earlier, value, depth - 1)
        elif isinstance(value, list) and isinstance(earlier, list) and depth:
            total[name] = _add_lists(earlier, value, depth - 1)
        elif _number(value) and _number(earlier):
            total[name] = earlier + value
        elif value is not None or name not in total:
            total[name] = value
    return total


def _add_lists(first: list[Any], second: list[Any], depth: int) -> list[Any]:
    if len(first) + len(second) > MAX_LISTED:
        return second
    total = list(first)
    for entry in second:
        index = next((index for index, candidate in enumerate(total) if _alike(candidate, entry)), None)
        if index is None:
            total.append(entry)
        else:
            total[index] = add_usage(total[index], entry, depth)
    return total


def _alike(first: object, second: object) -> bool:
    """Whether two entries of a list are of the same thing: objects whose members are equal but for numbers."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return False
    return _labels(first) == _labels(second) != {}


def _labels(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if not _number(value)}


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
