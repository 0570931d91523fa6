"""Results in MCP's form from the parts of providers' messages.

Pure module. What no MCP block stands for becomes a text block of its JSON.
"""

from __future__ import annotations

import binascii
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import amiss, member, text_of
from fairlead_formats.messages.content import json_text
from fairlead_formats.tool_format import JsonObject

_MISSING: Final = "[a part that cannot be read]"


def result_of(blocks: list[JsonObject], *, is_error: bool, structured: Any = None) -> JsonObject:
    """A `CallToolResult`."""
    result: JsonObject = {"content": blocks, "isError": is_error}
    if structured is not None:
        result["structuredContent"] = structured
    return result


def text_block(text: str) -> JsonObject:
    """A text block."""
    return {"type": "text", "text": text}


def media_block(mime: str, data: object) -> JsonObject:
    """An image, audio or a resource without an address, by its MIME type."""
    if isinstance(data, bytes | bytearray):
        data = binascii.b2a_base64(data, newline=False).decode()
    if not isinstance(data, str):
        return text_block(_MISSING)
    kind = mime.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": mime}
    return {"type": "resource", "resource": {"uri": "", "mimeType": mime, "blob": data}}


def as_text(value: object) -> JsonObject:
    """Any JSON value as a text block; text stays as it is."""
    text = text_of(value) if isinstance(value, str) else None
    if text is None:
        try:
            text = json_text(value) if amiss(value) is None else _MISSING
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
            text = _MISSING
    return text_block(text)


def blocks_of_parts(content: object) -> list[JsonObject]:
    """Blocks of OpenAI's content: text, or a list of parts of Chat (`text`, `image_url`) or Responses (`input_…`)."""
    if content is None or content == "":
        return []
    if not isinstance(content, list):
        return [as_text(content)]
    return [_of_part(part) for part in content]


def _of_part(part: object) -> JsonObject:
    kind = member(part, "type")
    if kind in ("text", "input_text", "output_text"):
        return as_text(member(part, "text") or "")
    if kind in ("image_url", "input_image", "input_file"):
        url = member(part, "image_url", "file_data")
        return of_data_url(member(url, "url") if isinstance(url, dict) else url, part)
    return as_text(part)


def of_data_url(url: object, part: object) -> JsonObject:
    """The block of a `data:` URL; a link to any other; the part itself as text where there is neither."""
    if not isinstance(url, str):
        return as_text(part)
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        if head.endswith(";base64"):
            return media_block(head.removesuffix(";base64").lower(), data)
    if len(url) > 4096 or "://" not in url:
        return as_text(part)
    return {"type": "resource_link", "uri": url, "name": url.rsplit("/", 1)[-1]}
