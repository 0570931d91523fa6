"""Decodes JSON documents of peers within `read_bounds`, long ones beside the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from fairlead_mcp.read_bounds import MAX_VALUES, excess, is_long


class UnreadableAnswer(ValueError):
    """A document that is not decoded, or not one of its kind. The message says why."""


async def decode_bounded(document: bytes, kind: Any, *, values: int = MAX_VALUES) -> Any:
    """The document as a value of `kind`, where it holds at most so many values. Raises UnreadableAnswer."""
    if not is_long(document):
        return _decode(document, kind)
    return await asyncio.to_thread(_within, document, kind, values)


def _within(document: bytes, kind: Any, values: int) -> Any:
    held = excess(document, values)
    if held is not None:
        raise UnreadableAnswer(f"it holds {held}")
    return _decode(document, kind)


def _decode(document: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(document, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableAnswer(str(error)) from error
