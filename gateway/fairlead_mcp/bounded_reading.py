"""Decoding of untrusted JSON documents within the limits of `read_bounds`. Long documents are decoded in a thread, so
that they do not block the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from fairlead_mcp.read_bounds import MAX_VALUES, explain_excess, is_long


class UnreadableAnswer(ValueError):
    """A document exceeds the bounds or is not of the expected type. The message says why."""


async def decode_bounded(document: bytes, kind: Any, *, max_values: int = MAX_VALUES) -> Any:
    """Decode a document of at most `max_values` JSON values as the type `kind`. Raises UnreadableAnswer."""
    if not is_long(document):
        return _decode(document, kind)
    return await asyncio.to_thread(_decode_checked, document, kind, max_values)


def _decode_checked(document: bytes, kind: Any, max_values: int) -> Any:
    excess = explain_excess(document, max_values)
    if excess is not None:
        raise UnreadableAnswer(f"the document has {excess}")
    return _decode(document, kind)


def _decode(document: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(document, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableAnswer(str(error)) from error
