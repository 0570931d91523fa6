"""Converts a handler's return value to the raw result of a `tools/call`.

Results have the form of MCP 2025-11-25; `calls.translation.translate` converts them to the client's revision of MCP.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import msgspec

from fairlead_mcp import jsonrpc
from fairlead_tools.handlers.problems import Unusable

_RESULT: Final = frozenset({"content", "structuredContent", "isError", "_meta"})
_ENVELOPE: Final = frozenset({"resultType"})
"""Members of results in newer revisions of MCP. They are dropped here: `calls.translation.translate` adds them."""
_CONTENT: Final = MappingProxyType(
    {
        "text": ("text",),
        "image": ("data", "mimeType"),
        "audio": ("data", "mimeType"),
        "resource": ("resource",),
        "resource_link": ("uri", "name"),
    }
)
"""Required members by type of content block (MCP 2025-11-25, ContentBlock)."""


def result(value: Any) -> bytes:
    """Convert a handler's return value to a raw result. Raises Unusable.

    A string becomes a text block. Content blocks of MCP, lists of them, and objects like a CallToolResult are used
    unchanged. Other values become a text block of their JSON, and structured content if they are an object. None
    becomes an empty result. Dataclasses, models of pydantic and msgspec, dates and the like are converted to JSON.
    """
    if isinstance(value, str):
        return b'{"content":[{"type":"text","text":%b}]}' % _encode(value)
    if value is None:
        return b'{"content":[]}'
    json_value = _to_builtins(value)
    if _is_result(json_value):
        return _encode(_tidy_result(json_value))
    if _is_block(json_value):
        return b'{"content":[%b]}' % _encode(_without_nones(json_value))
    if isinstance(json_value, list) and json_value and all(_is_block(item) for item in json_value):
        return _encode({"content": [_without_nones(item) for item in json_value]})
    text = _encode(json_value)
    structured_member = b',"structuredContent":%b' % text if isinstance(json_value, dict) else b""
    return b'{"content":[{"type":"text","text":%b}]%b}' % (_encode(text.decode()), structured_member)


def failure(error: BaseException) -> bytes:
    """Make the raw result for an exception of a handler."""
    message = str(error)
    kind = type(error).__name__
    text = f"{kind}: {message}" if message and isinstance(error, LookupError) else message or kind
    return b'{"content":[{"type":"text","text":%b}],"isError":true}' % _encode(text.encode(errors="replace").decode())


def _to_builtins(value: Any) -> Any:
    if type(value) is dict or type(value) is list:
        try:
            return msgspec.json.decode(jsonrpc.encode(value))
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass  # contains values that only `to_builtins` below converts
    try:
        return msgspec.to_builtins(value, enc_hook=_dump_model, str_keys=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unusable(
            f"the tool returned a {type(value).__name__}, which cannot be converted to JSON: {error}"
        ) from error


def _dump_model(value: Any) -> Any:
    """Convert a model of pydantic, recognized by its method so that pydantic need not be imported."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} cannot be converted to JSON")


def _encode(value: Any) -> bytes:
    try:
        return jsonrpc.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unusable(f"the tool returned a value that cannot be converted to JSON: {error}") from error


def _is_result(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("content"), list):
        return False
    return value.keys() <= _RESULT | _ENVELOPE and all(_is_block(block) for block in value["content"])


def _is_block(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    required_members = _CONTENT.get(value["type"])
    return required_members is not None and all(value.get(name) is not None for name in required_members)


def _without_nones(block: dict[str, Any]) -> dict[str, Any]:
    """Remove members that are None: the SDK's models have None for members that are absent in JSON."""
    return {name: value for name, value in block.items() if value is not None}


def _tidy_result(value: dict[str, Any]) -> dict[str, Any]:
    members = {name: each for name, each in value.items() if each is not None and name not in _ENVELOPE}
    return {**members, "content": [_without_nones(block) for block in value["content"]]}
