"""The text or JSON document in a tool's result, and what the result holds beside it. Pure module.

SDKs say most results twice: as text, and as `structuredContent` with the same JSON, or with the text as its one member
(FastMCP's `{"result": text}`). A text has lines, and a JSON string has none, so such a wrapper is not what is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from fairlead_search.passages import write_out

DEEPEST: Final = 200
"""Objects and lists in one another in a document that is read as JSON; a deeper one is read as text."""
_WRAPPERS: Final = 4
"""Objects and lists around a text that are looked through."""
Block = dict[str, Any]


class ResultDocument(msgspec.Struct, frozen=True):
    """The content of a result."""

    whole: object
    """Text, or decoded JSON, that is read and searched."""
    other: object = None
    """The text of the result, or its structured content, if `whole` is the other and they differ; else None."""


def document(result: bytes) -> object:
    """Text or JSON in a raw result: the `whole` of `read_document`."""
    return read_document(result).whole


def read_document(result: bytes) -> ResultDocument:
    """The document of a raw result: its `structuredContent`, unless that only wraps the texts or is the shorter of two
    that differ; else its texts, as JSON where they are. Other content is named by type and size.
    """
    return _document_in(_members(result), result)


def _members(result: bytes) -> object:
    """A raw result decoded, as text where it is not JSON."""
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
    """A raw result as the contents of a resource: its document as text, and what else it holds as it is."""
    members = _members(result)
    read = _document_in(members, result)
    parts: list[Block] = [
        {"uri": uri, "mimeType": "text/plain" if isinstance(each, str) else "application/json", "text": write_out(each)}
        for each in (read.whole, read.other)
        if each is not None
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
    """The texts of blocks, one below the other; where each of them is a JSON document, that, or the list of them."""
    texts = [_describe(block) if (text := _text(block)) is None else text for block in blocks]
    values = [text if _text(block) is None else _json(text) for block, text in zip(blocks, texts, strict=True)]
    if all(isinstance(value, str) for value in values) or None in values:
        return "\n".join(texts)
    return values[0] if len(values) == 1 else values


def _json(text: str) -> object | None:
    """The JSON object or list that a text is; None for any other text."""
    if text.lstrip("\ufeff \t\r\n")[:1] not in ("{", "["):
        return None
    try:
        value = msgspec.json.decode(text.lstrip("\ufeff"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if _is_deep(value) else value


def _text(block: Block) -> str | None:
    """Text of a text block or of an embedded resource; None for any other."""
    if isinstance(block.get("text"), str):
        return str(block["text"])
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return None


def _describe(block: Block) -> str:
    """One line that names a block without text."""
    if block.get("type") == "resource_link":
        return f"[resource {block.get('uri')}]"
    mime, data = _binary(block)
    return f"[{block.get('type')} {mime}, {len(data or '') * 3 // 4:,} bytes]"


def _binary(block: Block) -> tuple[str, str | None]:
    """Media type of an image, a sound or an embedded resource, and its data in base64; None where it has none."""
    resource = block.get("resource")
    holder, member = (resource, "blob") if isinstance(resource, dict) else (block, "data")
    data = holder.get(member)
    return str(holder.get("mimeType") or ""), data if isinstance(data, str) else None


def _wraps(structured: object, texts: Sequence[str]) -> bool:
    """Whether structured content holds the texts of its result and nothing else."""
    inner = _texts_in(structured, _WRAPPERS)
    if not _are_lines(inner):
        return False
    return "".join(map(str.strip, inner)) == "".join(map(str.strip, texts))


def _unwrap(whole: object) -> ResultDocument:
    """A document, or the texts with lines that it holds and nothing else."""
    inner = None if isinstance(whole, str) else _texts_in(whole, _WRAPPERS)
    if not _are_lines(inner) or not any("\n" in text for text in inner):
        return ResultDocument(whole)
    return ResultDocument("\n".join(inner), whole)


def _are_lines(texts: list[str] | None) -> TypeGuard[list[str]]:
    """Whether texts are read as lines: one text is, and several where one has lines; names in a list stay JSON."""
    return texts is not None and len(texts) > 0 and (len(texts) == 1 or any("\n" in text for text in texts))


def _texts_in(value: object, depth: int) -> list[str] | None:
    """Texts in objects of one member, lists and MCP's text blocks; None where there is anything else."""
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
        inner = _texts_in(item, depth - 1)
        if inner is None:
            return None
        texts += inner
    return texts


def _is_deep(value: object) -> bool:
    """Whether it is nested deeper than `DEEPEST`: writing it again would go beyond the interpreter's stack."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
