"""Repair of malformed results of `prompts/get`, `resources/read` and `completion/complete`. No I/O.

The rules are those for results of tools (`tool_results`), but a result whose meaning is not clear is refused: unlike a
tool call, these requests have no effects, so that an error hides nothing from the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from fairlead_mcp import tool_results
from fairlead_mcp.content import Block, ResourceContents, ResultMeta, Role
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.jsonrpc import UNREADABLE, RawObject, decode_object, encode, excerpt

MOST_VALUES: Final = 100
"""Limit for the values of a completion (MCP 2026-07-28, `CompleteResult`)."""


class _CommonResult(Struct):
    """Members that results of all methods have."""

    result_type: str | UnsetType = msgspec.field(name="resultType", default=UNSET)
    meta: ResultMeta | UnsetType = msgspec.field(name="_meta", default=UNSET)


class _PromptMessage(Struct):
    role: Role
    content: Block


class _PromptResult(_CommonResult, kw_only=True):
    """Result of `prompts/get`."""

    messages: list[_PromptMessage]
    description: str | UnsetType = UNSET


class _ReadResult(_CommonResult, kw_only=True):
    """Result of `resources/read`."""

    contents: list[ResourceContents]
    ttl_ms: Annotated[int, Meta(ge=0)] | UnsetType = msgspec.field(name="ttlMs", default=UNSET)
    cache_scope: Literal["private", "public"] | UnsetType = msgspec.field(name="cacheScope", default=UNSET)


class _CompletionValues(Struct, rename="camel"):
    values: Annotated[list[str], Meta(max_length=MOST_VALUES)]
    total: int | UnsetType = UNSET
    has_more: bool | UnsetType = UNSET


class _CompleteResult(_CommonResult, kw_only=True):
    """Result of `completion/complete`."""

    completion: _CompletionValues


_decode: Final = msgspec.json.Decoder().decode
_decoders: Final[Mapping[str, Callable[[bytes | Raw], Any]]] = {
    "prompts/get": msgspec.json.Decoder(_PromptResult).decode,
    "resources/read": msgspec.json.Decoder(_ReadResult).decode,
    "completion/complete": msgspec.json.Decoder(_CompleteResult).decode,
}


def conform(method: str, raw: bytes | Raw) -> tuple[bytes | Raw, str]:
    """Return a valid result, and why it had to be repaired; the reason is empty for a result that was valid or is of
    another method.

    Raises NotMcp for a result whose meaning is not clear.
    """
    decode = _decoders.get(method)
    if decode is None:
        return raw, ""
    try:
        decode(raw)
    except msgspec.ValidationError as error:
        return _mend(method, raw, decode), excerpt(str(error).encode())
    return raw, ""


def _mend(method: str, raw: bytes | Raw, decode: Callable[[bytes | Raw], Any]) -> bytes:
    try:
        members = decode_object(raw)
        _MENDS[method](members)
        repaired = encode(members)
        decode(repaired)
    except UNREADABLE as error:
        raise NotMcp(f"the server's answer to {method} violates MCP's schema ({error})") from error
    return repaired


def _mend_prompt(members: RawObject) -> None:
    if bytes(members.get("description", b'"'))[:1] != b'"':
        del members["description"]
    value = members.get("messages", Raw(b"[]"))
    messages = [repaired for item in _items(value) for repaired in _messages(item)]
    members["messages"] = Raw(encode(messages))


def _messages(item: Raw) -> list[RawObject]:
    """Split a message into one per content block, as MCP allows one block per message."""
    first = bytes(item)[:1]
    message = decode_object(item) if first == b"{" else {"content": item}
    role = message.get("role")
    valid_role = role if role is not None and bytes(role) in (b'"user"', b'"assistant"') else Raw(b'"user"')
    blocks = [tool_results.mend_block(part) for part in _items(message.get("content", item))]
    return [{**message, "role": valid_role, "content": Raw(block)} for block in blocks if block is not None]


def _mend_resource(members: RawObject) -> None:
    value = members.get("contents", Raw(b"null"))
    members["contents"] = Raw(encode([tool_results.mend_contents(item) for item in _items(value)]))
    for name, decode in _decode_hint.items():
        if name in members and not tool_results.is_valid(decode, members[name]):
            del members[name]


def _mend_completion(members: RawObject) -> None:
    value = members.get("completion", Raw(b"null"))
    completion = decode_object(value) if bytes(value)[:1] == b"{" else {"values": value}
    values = [bytes(item) for item in _items(completion.get("values", Raw(b"null")))]
    texts = [_decode(item) if item[:1] == b'"' else item.decode() for item in values if item != b"null"]
    completion["values"] = Raw(encode(texts[:MOST_VALUES]))
    if len(texts) > MOST_VALUES:
        completion["hasMore"] = Raw(b"true")
    for name, decode in _decode_count.items():
        if name in completion and not tool_results.is_valid(decode, completion[name]):
            del completion[name]
    members["completion"] = Raw(encode(completion))


def _items(value: Raw) -> list[Raw]:
    """Return the elements of a list, nothing for null, and another value as the only element."""
    raw = bytes(value)
    if raw == b"null":
        return []
    items = tool_results.elements(value) if raw[:1] == b"[" else [value]
    if len(items) > tool_results.MOST_BLOCKS:
        raise NotMcp(f"the server's answer violates MCP's schema, and a list of {len(items):,} is too long to repair")
    return items


_MENDS: Final[Mapping[str, Callable[[RawObject], None]]] = {
    "prompts/get": _mend_prompt,
    "resources/read": _mend_resource,
    "completion/complete": _mend_completion,
}
_decode_hint: Final[Mapping[str, Callable[[bytes | Raw], Any]]] = {
    "ttlMs": msgspec.json.Decoder(Annotated[int, Meta(ge=0)]).decode,
    "cacheScope": msgspec.json.Decoder(Literal["private", "public"]).decode,
}
_decode_count: Final[Mapping[str, Callable[[bytes | Raw], Any]]] = {
    "total": msgspec.json.Decoder(int).decode,
    "hasMore": msgspec.json.Decoder(bool).decode,
}
