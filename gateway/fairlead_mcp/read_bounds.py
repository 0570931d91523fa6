"""Limits for untrusted JSON documents: which are refused, and which are decoded outside the event loop. No I/O.

Decoding takes 50 to 200 ns per value, and some microseconds per item that Python code visits. Decoding a long document
in the event loop would delay all calls.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_mcp.value_count import explain_cost

LONG_BYTES: Final = 256 << 10
"""Bytes from which a document is decoded outside the event loop."""
LONG_COMMAS: Final = 1_000
"""Commas from which a document is decoded outside the event loop, as it may have many items."""
MAX_VALUES: Final = 200_000
"""Limit for the values of one document; each takes up to 200 bytes of memory after decoding."""
MAX_ITEMS: Final = 10_000
"""Limit for the items of one document: messages, their parts and calls, definitions of tools."""
_LEVELS: Final = 5
"""Levels of lists and objects whose items are counted: an answer's choices, their message, its parts, and the parts
of a tool result in Anthropic's API."""
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Lists(msgspec.Struct):
    """Members that contain items in requests, answers, messages and parts of all APIs."""

    messages: Raw = Raw()
    message: Raw = Raw()
    stream: Raw = Raw()
    results: Raw = Raw()
    input: Raw = Raw()
    contents: Raw = Raw()
    content: Raw = Raw()
    parts: Raw = Raw()
    tools: Raw = Raw()
    tool_calls: Raw = Raw()
    tool_choice: Raw = Raw()
    allowed_tools: Raw = Raw()
    summary: Raw = Raw()
    system: Raw = Raw()
    function_declarations: Raw = Raw()
    functionDeclarations: Raw = Raw()  # noqa: N815 - Gemini's name
    choices: Raw = Raw()
    output: Raw = Raw()
    candidates: Raw = Raw()
    response: Raw = Raw()


_ARGUMENT_MEMBERS: Final = frozenset({"input", "response"})
"""Members that below the top level contain items if they are a list, but a tool's arguments or result if they are
an object."""
_NAMES: Final = _Lists.__struct_fields__
_lists: Final = msgspec.json.Decoder(_Lists).decode
_list: Final = msgspec.json.Decoder(list[Raw]).decode


def is_long(document: bytes) -> bool:
    """Whether decoding a document may take more than some milliseconds and belongs outside the event loop."""
    size = len(document)
    return size > LONG_BYTES or (size > LONG_COMMAS and document.count(b",") > LONG_COMMAS)


def explain_excess(document: bytes, max_values: int = MAX_VALUES) -> str | None:
    """Explain why a document exceeds the limits, such as `more than 200,000 values`; None if it does not.

    Only documents that are `is_long` can exceed the limits.
    """
    excess = explain_cost(document, max_values) if len(document) > max_values else None
    if excess is not None:
        return excess
    return f"more than {MAX_ITEMS:,} messages, parts and calls" if too_many_items(document) else None


def too_many_items(document: bytes) -> bool:
    """Whether the lists of a document have more than `MAX_ITEMS` items in all: messages, their parts and calls,
    contents of parts, definitions of tools.

    Lists within arguments, results and schemas do not count. False for invalid JSON.
    """
    if document.count(b",") < MAX_ITEMS:
        return False
    total = 0
    level: list[bytes | Raw] = [document]
    for depth in range(_LEVELS):
        items_below: list[bytes | Raw] = []
        objects: list[bytes | Raw] = []
        for text in level:
            for name, member in _members(text):
                items = _items(member)
                if not items and (not depth or name not in _ARGUMENT_MEMBERS):
                    objects.append(member)
                items_below += items
                if total + len(items_below) > MAX_ITEMS:
                    return True
        total += len(items_below)
        level = [item for item in (*items_below, *objects) if bytes(memoryview(item)[:1]) == b"{"]
    return False


def _members(text: bytes | Raw) -> list[tuple[str, Raw]]:
    try:
        return list(zip(_NAMES, msgspec.structs.astuple(_lists(text)), strict=True))
    except _UNREADABLE:
        return []


def _items(text: Raw) -> list[Raw]:
    if bytes(memoryview(text)[:1]) != b"[":
        return []
    try:
        return _list(text)
    except _UNREADABLE:
        return []
