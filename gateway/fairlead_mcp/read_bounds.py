"""Bounds of JSON documents that peers send, for every plane: what is refused before it is decoded, and what is decoded
beside the event loop. Pure module.

Decoding takes 50 to 200 ns a value and some microseconds an item that Python looks at, and holds up everybody's calls.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_mcp.value_count import too_dear

LONG_BYTES: Final = 256 << 10
"""Bytes of a document from which on it is read beside the event loop."""
LONG_COMMAS: Final = 1_000
"""Commas of a document from which on it may hold enough items to be read beside the event loop."""
MAX_VALUES: Final = 200_000
"""Values of one document, each of which takes up to some 200 bytes once it is read, whatever its size on the wire."""
MAX_ITEMS: Final = 10_000
"""Items of one document: messages, their parts and calls, definitions of tools."""
_LEVELS: Final = 5
"""Lists and objects within each other whose items are looked at: an answer's choices, their message, its parts, and
parts of a result of Anthropic's."""
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Lists(msgspec.Struct):
    """Members that hold items in a request, an answer, a message or a part, in every API. Others are skipped without a
    copy.
    """

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
    functionDeclarations: Raw = Raw()  # noqa: N815 - as Gemini's API writes it
    choices: Raw = Raw()
    output: Raw = Raw()
    candidates: Raw = Raw()
    response: Raw = Raw()


_HOLDS_ARGUMENTS: Final = frozenset({"input", "response"})
"""Members that hold items as a list, and a tool's arguments or its result as an object, unless they are at the top."""
_NAMES: Final = _Lists.__struct_fields__
_lists: Final = msgspec.json.Decoder(_Lists).decode
_list: Final = msgspec.json.Decoder(list[Raw]).decode


def is_long(document: bytes) -> bool:
    """Whether reading a document may take over some milliseconds, so that it belongs beside the event loop."""
    size = len(document)
    return size > LONG_BYTES or (size > LONG_COMMAS and document.count(b",") > LONG_COMMAS)


def excess(document: bytes, values: int = MAX_VALUES) -> str | None:
    """Reason not to decode a document, such as `more than 200,000 values`; None where it may be decoded. Only one that
    `is_long` may hold too much.
    """
    dear = too_dear(document, values) if len(document) > values else None
    if dear is not None:
        return dear
    return f"more than {MAX_ITEMS:,} messages, parts and calls" if too_many_items(document) else None


def too_many_items(document: bytes) -> bool:
    """Whether the lists of a document hold over `MAX_ITEMS` items in all: messages, their parts and calls, what a part
    holds, definitions of tools. Lists within arguments, results and schemas, which are objects of their own, do not
    count. Of a document that cannot be read nothing is said.
    """
    if document.count(b",") < MAX_ITEMS:
        return False
    total = 0
    level: list[bytes | Raw] = [document]
    for depth in range(_LEVELS):
        below: list[bytes | Raw] = []
        objects: list[bytes | Raw] = []
        for text in level:
            for name, member in _members(text):
                items = _items(member)
                if not items and (not depth or name not in _HOLDS_ARGUMENTS):
                    objects.append(member)
                below += items
                if total + len(below) > MAX_ITEMS:
                    return True
        total += len(below)
        level = [item for item in (*below, *objects) if bytes(memoryview(item)[:1]) == b"{"]
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
