"""JSON that goes on as it came: raw items in a list, members read one by one. Pure module, which takes whatever a
client or a provider wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

_any: Final = msgspec.json.Decoder().decode


class _ErrorBody(msgspec.Struct):
    error: Raw


def decoded(raw: bytes | Raw) -> dict[str, Any]:
    """A message; an empty one for what is none."""
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
