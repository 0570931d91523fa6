"""Builds results in MCP's form from parts of providers' messages.

Pure module. A part without an equivalent in MCP becomes a text block with its JSON.
"""

from __future__ import annotations

import binascii
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import json_fault, text_of
from fairlead_formats.messages.content import json_text
from fairlead_formats.tool_format import JsonObject

_UNREADABLE_PART: Final = "[a part that cannot be read]"


def result_of(blocks: list[JsonObject], *, is_error: bool, structured: Any = None) -> JsonObject:
    """A `CallToolResult` with these blocks."""
    result: JsonObject = {"content": blocks, "isError": is_error}
    if structured is not None:
        result["structuredContent"] = structured
    return result


def text_block(text: str) -> JsonObject:
    """An MCP text block."""
    return {"type": "text", "text": text}


def media_block(mime: str, data: object) -> JsonObject:
    """An MCP image, audio, or resource block (with an empty URI), depending on the MIME type."""
    if isinstance(data, bytes | bytearray):
        data = binascii.b2a_base64(data, newline=False).decode()
    if not isinstance(data, str):
        return text_block(_UNREADABLE_PART)
    kind = mime.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": mime}
    return {"type": "resource", "resource": {"uri": "", "mimeType": mime, "blob": data}}


def json_text_block(value: object) -> JsonObject:
    """A text block with the JSON of a value; a string is not quoted."""
    text = text_of(value) if isinstance(value, str) else None
    if text is None:
        try:
            text = json_text(value) if json_fault(value) is None else _UNREADABLE_PART
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
            text = _UNREADABLE_PART
    return text_block(text)
