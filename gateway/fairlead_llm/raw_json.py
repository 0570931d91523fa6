"""JSON that goes on as it came: raw items in a list, members read one by one. Pure module, which takes whatever a
client or a provider wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_mcp.jsonrpc import UNREADABLE

_any: Final = msgspec.json.Decoder().decode
_list: Final = msgspec.json.Decoder(list[Raw]).decode
_LIST_LEVELS: Final = 3
"""Lists within lists whose items are looked at one by one: messages, parts, and parts of a result of Anthropic's."""
MAX_ITEMS: Final = 10_000
"""Items of one body, each of which costs some microseconds of Python before the next request has its turn."""
MAX_VALUES: Final = 1 << 20
"""Values of one body, about: each takes up to some 200 bytes once it is read, whatever its size on the wire."""


def too_many_values(body: bytes) -> bool:
    """Whether a body may hold over `MAX_VALUES` values. Every one but the first of a list or an object has a comma in
    front; commas in texts count too, and no conversation has a million of them.
    """
    return len(body) > MAX_VALUES and body.count(b",") >= MAX_VALUES


class _Lists(msgspec.Struct):
    """Members that hold a list in a request, a message or a part, in every API. Others are skipped without a copy."""

    messages: Raw = Raw()
    input: Raw = Raw()
    contents: Raw = Raw()
    content: Raw = Raw()
    parts: Raw = Raw()
    tools: Raw = Raw()
    tool_calls: Raw = Raw()
    summary: Raw = Raw()
    system: Raw = Raw()
    function_declarations: Raw = Raw()
    functionDeclarations: Raw = Raw()  # noqa: N815 - as Gemini's API writes it


_lists: Final = msgspec.json.Decoder(_Lists).decode


def too_many_items(body: bytes) -> bool:
    """Whether the lists of a request hold over `MAX_ITEMS` items in all: messages, their parts and calls, what a part
    holds, definitions of tools. Lists within arguments, results and schemas, which are objects of their own, do not
    count. Of a body that cannot be read nothing is said.
    """
    if body.count(b",") < MAX_ITEMS:
        return False
    total = 0
    level: list[bytes | Raw] = [body]
    for _ in range(_LIST_LEVELS):
        below: list[Raw] = []
        for text in level:
            for member in _members(text):
                below += _items(member)
                if total + len(below) > MAX_ITEMS:
                    return True
        total += len(below)
        level = [item for item in below if bytes(memoryview(item)[:1]) == b"{"]
    return False


def _members(text: bytes | Raw) -> tuple[Raw, ...]:
    try:
        return msgspec.structs.astuple(_lists(text))
    except UNREADABLE:
        return ()


def _items(text: Raw) -> list[Raw]:
    if bytes(memoryview(text)[:1]) != b"[":
        return []
    try:
        return _list(text)
    except UNREADABLE:
        return []


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
