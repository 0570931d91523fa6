"""Extraction of the text or JSON document from a tool's result. Does no I/O.

SDKs write most results twice: as text, and as `structuredContent`. The latter has the same JSON, or only wraps the text
in an object (FastMCP's `{"result": text}`). If it only wraps the text, the text is read instead, because text can be
read by lines, and a string in JSON cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from fairlead_search.passages import write_out

MAX_JSON_DEPTH: Final = 200
"""Maximum nesting of a document that is read as JSON. Deeper documents are read as text."""
_WRAPPERS: Final = 4
"""Maximum nesting of objects and lists that count as a wrapper around a text."""
Block = dict[str, Any]


class ResultDocument(msgspec.Struct, frozen=True):
    """Content of a result."""

    whole: object
    """Text or decoded JSON that is read and searched."""
    other: object = None
    """The other form of the result, text or structured content, if it differs from `whole`; else None."""


def document(result: bytes) -> object:
    """Text or JSON in a raw result, which is the `whole` of `read_document`."""
    return read_document(result).whole


def read_document(result: bytes) -> ResultDocument:
    """Extract the document of a raw result: its `structuredContent`, unless that only wraps the text, or is shorter
    than a text with other content. In these cases the document is the text, decoded if it is JSON. Images and other
    content without text are described by type and size.
    """
    return _document_in(_members(result), result)


def _members(result: bytes) -> object:
    """Decode a raw result as JSON, or as text if it is not valid JSON."""
    try:
        return msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return result.decode("utf-8", "replace")


def _document_in(members: object, result: bytes) -> ResultDocument:
    if not isinstance(members, dict):
        return ResultDocument(str(members))
    blocks = _blocks_of(members)
    structured = members.get("structuredContent")
    if not isinstance(structured, dict | list):
        return _unwrap(_document_of(blocks))
    if _is_deep(structured):
        return ResultDocument(result.decode("utf-8", "replace"))
    if not blocks:
        return _unwrap(structured)
    if _wraps(structured, [text for block in blocks if (text := _text(block)) is not None]):
        return ResultDocument(_document_of(blocks), structured)
    document = _document_of(blocks)
    if document == structured or (
        isinstance(structured, dict) and [*structured.values()] in ([document], [[document]])
    ):
        return _unwrap(structured)
    if len(write_out(document)) > len(write_out(structured)):
        return ResultDocument(document, structured)
    return ResultDocument(structured, document)


def contents(result: bytes, uri: str) -> bytes:
    """Convert a raw result to the contents of a resource: its document as text, and binary content as blobs."""
    members = _members(result)
    parsed = _document_in(members, result)
    parts: list[Block] = [
        {"uri": uri, "mimeType": "text/plain" if isinstance(form, str) else "application/json", "text": write_out(form)}
        for form in (parsed.whole, parsed.other)
        if form is not None
    ]
    for block in _blocks_of(members):
        mime, data = _binary(block)
        if data is not None:
            parts.append({"uri": uri, "mimeType": mime, "blob": data})
    return msgspec.json.encode({"contents": parts})


def _blocks_of(members: object) -> list[Block]:
    content = members.get("content") if isinstance(members, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _document_of(blocks: Sequence[Block]) -> object:
    """Join the texts of blocks by newlines. If all texts are JSON, return the decoded value, or a list if there are
    several."""
    texts = [_describe(block) if (text := _text(block)) is None else text for block in blocks]
    values = [text if _text(block) is None else _json(text) for block, text in zip(blocks, texts, strict=True)]
    if all(isinstance(value, str) for value in values) or None in values:
        return "\n".join(texts)
    return values[0] if len(values) == 1 else values


def _json(text: str) -> object | None:
    """Decode a text that is a JSON object or list; None for other texts."""
    if text.lstrip("\ufeff \t\r\n")[:1] not in ("{", "["):
        return None
    try:
        value = msgspec.json.decode(text.lstrip("\ufeff"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if _is_deep(value) else value


def _text(block: Block) -> str | None:
    """Text of a text block or an embedded resource; None for other blocks."""
    if isinstance(block.get("text"), str):
        return str(block["text"])
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return None


def _describe(block: Block) -> str:
    """One line that describes a block without text."""
    if block.get("type") == "resource_link":
        return f"[resource {block.get('uri')}]"
    mime, data = _binary(block)
    return f"[{block.get('type')} {mime}, {len(data or '') * 3 // 4:,} bytes]"


def _binary(block: Block) -> tuple[str, str | None]:
    """Media type of an image, audio or embedded resource, and its base64 data; None for the data of a block without
    data.
    """
    resource = block.get("resource")
    parent, member = (resource, "blob") if isinstance(resource, dict) else (block, "data")
    data = parent.get(member)
    return str(parent.get("mimeType") or ""), data if isinstance(data, str) else None


def _wraps(structured: object, texts: Sequence[str]) -> bool:
    """Whether structured content consists only of the texts of its result."""
    inner_texts = _texts_in(structured, _WRAPPERS)
    if not _are_lines(inner_texts):
        return False
    return "".join(map(str.strip, inner_texts)) == "".join(map(str.strip, texts))


def _unwrap(value: object) -> ResultDocument:
    """Extract the texts from a decoded document that only wraps texts with several lines, so that they can be read by
    lines. Other documents are returned unchanged.
    """
    inner_texts = None if isinstance(value, str) else _texts_in(value, _WRAPPERS)
    if not _are_lines(inner_texts) or not any("\n" in text for text in inner_texts):
        return ResultDocument(value)
    return ResultDocument("\n".join(inner_texts), value)


def _are_lines(texts: list[str] | None) -> TypeGuard[list[str]]:
    """Whether texts are read by lines instead of as JSON: a single text, or several texts of which one has more than
    one line. A list of names, for example, remains JSON.
    """
    return texts is not None and len(texts) > 0 and (len(texts) == 1 or any("\n" in text for text in texts))


def _texts_in(value: object, depth: int) -> list[str] | None:
    """Texts in a value of objects with one member, lists and MCP text blocks; None if the value has anything else."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        if value.get("type") == "text" and isinstance(value.get("text"), str):
            return [value["text"]]
        members = [member for member in value.values() if member is not None]
        return _texts_in(members[0], depth - 1) if len(members) == 1 and depth else None
    if not isinstance(value, list) or not depth:
        return None
    texts: list[str] = []
    for item in value:
        inner_texts = _texts_in(item, depth - 1)
        if inner_texts is None:
            return None
        texts += inner_texts
    return texts


def _is_deep(value: object) -> bool:
    """Whether a value is nested deeper than `MAX_JSON_DEPTH`. Encoding it would exceed the interpreter's stack."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [inner for each in level for inner in _children(each)]
        if not level:
            return False
    return True


def _children(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
