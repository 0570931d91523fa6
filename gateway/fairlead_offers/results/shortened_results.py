"""Shortens a result to a number of tokens: its shape, beginning and end, as a function of bytes. Pure module.

Lines are those that `range` and `grep` of a kept result count, so that a model reads on where the beginning ends.
Structured content must fit the tool's `outputSchema` (MCP 2025-11-25, "Output Schema"), so it keeps its members and
types, and loses items of arrays and the ends of long strings; where a tool declares no schema it is left out, for the
protocol does not ask for it then.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_formats.tokens.conversation import DOCUMENT_BYTES
from fairlead_formats.tokens.media import audio_tokens, image_tokens
from fairlead_gateway.core.long_results import META_KEPT, URI, LongResult, ShownResult
from fairlead_mcp import eras
from fairlead_offers.job import Job
from fairlead_offers.results.result_documents import document
from fairlead_search.passages import write_out
from fairlead_search.shapes import shape
from fairlead_search.token_estimate import BYTES_PER_TOKEN, ending, tokens, within

FOLLOWS_TOKENS: Final = 40
"""Tokens of the sentence that says which lines are shown."""
_LEVELS: Final = (
    (200, 2000, 0),
    (50, 1000, 0),
    (20, 400, 0),
    (8, 200, 0),
    (3, 100, 0),
    (1, 64, 0),
    (0, 64, 0),
    (0, 64, 40),
    (0, 32, 8),
)
"""Items of an array, characters of a string and members of an object (0: all) that are left, the most first."""
_OWN: Final = ("fairlead.dev/", eras.PREFIX)
_decode: Final = msgspec.msgpack.Decoder(LongResult).decode
SHORTEN: Final = Job[ShownResult]("shorten", ShownResult)


def shorten(work: bytes) -> ShownResult:
    """Shorten a `LongResult`, which comes as MessagePack."""
    return shorten_result(_decode(work))


def shorten_result(long: LongResult) -> ShownResult:
    """The part of a result that is shown: all of it, where it has no more tokens than it may."""
    try:
        members = msgspec.json.decode(long.result, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        members = {"content": [{"type": "text", "text": long.result.decode("utf-8", "replace")}]}
    content = members.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    structured = members.get("structuredContent")
    whole = max(sum(map(block_tokens, blocks)), _size(structured) if structured is not None else 0)
    if whole <= long.tokens:
        return ShownResult(whole)
    parts, length = _content(long, document(long.result), blocks, whole)
    made: dict[str, Any] = {
        name: value
        for name, value in members.items()
        if name not in ("content", "structuredContent", "_meta") and _size(value) <= long.tokens
    }
    made["content"] = parts
    if structured is not None and long.declared:
        cut = reduce_value(structured, long.tokens)
        if cut is None:
            return ShownResult(whole, unfit=True)
        made["structuredContent"] = cut
        length = max(length, _size(cut))
    meta = members.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    if _size(meta) > long.tokens:
        meta = {name: value for name, value in meta.items() if name.startswith(_OWN)}
    facts = {"kept": not long.lost, "tokens": whole, "shownTokens": length, "bytes": len(long.result)}
    made["_meta"] = {**meta, META_KEPT: {**({"id": long.id} if not long.lost else {"reason": long.lost}), **facts}}
    return ShownResult(whole, msgspec.json.encode(made), length)


def block_tokens(block: dict[str, Any]) -> int:
    """Tokens of one content block: of text by its bytes, of an image or sound as the dearest provider counts it."""
    kind, data = block.get("type"), block.get("data")
    if kind == "image" and isinstance(data, str):
        return image_tokens(data)
    if kind == "audio" and isinstance(data, str):
        return audio_tokens(data)
    if isinstance(block.get("text"), str):
        return tokens(block["text"])
    resource = block.get("resource")
    blob = resource.get("blob") if isinstance(resource, dict) else None
    if isinstance(resource, dict) and isinstance(blob, str):
        mime = str(resource.get("mimeType"))
        if mime.startswith("image/"):
            return image_tokens(blob)
        return audio_tokens(blob) if mime.startswith("audio/") else len(blob) * 3 // 4 // DOCUMENT_BYTES + 1
    return _size(block)


def reduce_value(value: object, most: int) -> object | None:
    """A JSON value of the same types within a number of tokens, with as much in it as fits; None: there is none."""
    for items, characters, members in _LEVELS:
        cut = _prune(value, items, characters, members)
        if _size(cut) <= most:
            return cut
    return None


def _prune(value: Any, items: int, characters: int, members: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= characters else value[: characters - 1] + "…"
    if isinstance(value, list):
        return [_prune(item, items, characters, members) for item in value[:items]]
    if isinstance(value, dict):
        named = [*value.items()][: members or None]
        return {name: _prune(item, items, characters, members) for name, item in named}
    return value


def _size(value: object) -> int:
    return -(-len(msgspec.json.encode(value)) // BYTES_PER_TOKEN)


def _content(
    long: LongResult, whole: object, blocks: list[dict[str, Any]], size: int
) -> tuple[list[dict[str, Any]], int]:
    """The blocks that are shown, and their tokens."""
    text = write_out(whole)
    count = len(text.splitlines())
    link = _link(long, whole, text) if long.linked and not long.lost else None
    media, left = _media(blocks, long.tokens - (_size(link) if link else 0))
    note = _note(long, size)
    described = within("\n".join(shape(whole)), left // 4)
    left = max(0, left - tokens(note) - tokens(described) - FOLLOWS_TOKENS)
    head = _head(text, left * 2 // 3)
    tail = _tail(text[len(head) :], left - tokens(head))
    first, last = len(head.splitlines()), count - len(tail.splitlines()) + 1
    follows = f"Lines 1-{first}" + (f" and {last}-{count}" if tail else "") + f" of {count} follow, word for word."
    content: list[dict[str, Any]] = [{"type": "text", "text": f"{note} {follows}\nShape:\n{described}"}]
    content += [{"type": "text", "text": part} for part in (head, tail) if part]
    content += media
    if link:
        content.append(link)
    return content, sum(map(block_tokens, content))


def _note(long: LongResult, whole: int) -> str:
    size = f"This result has about {whole:,} tokens, and {long.tokens:,} may be shown."
    if long.lost:
        return f"{size} The rest is lost ({long.lost}): ask for less, if the tool can be asked for less."
    return f"{size} The whole is kept as {long.id}: {long.reader}."


def _media(blocks: list[dict[str, Any]], left: int) -> tuple[list[dict[str, Any]], int]:
    """Images and sounds that there is room for, in up to half of it, and the tokens that are left."""
    taken: list[dict[str, Any]] = []
    room = left // 2
    for block in blocks:
        if block.get("type") in ("image", "audio") and block_tokens(block) <= room:
            taken.append(block)
            room -= block_tokens(block)
            left -= block_tokens(block)
    return taken, left


def _head(text: str, most: int) -> str:
    """The beginning of a text, up to the end of a line where there is one near."""
    cut = within(text, most)
    end = cut.rfind("\n")
    return cut[: end + 1] if len(cut) < len(text) and end > len(cut) * 2 // 3 else cut


def _tail(text: str, most: int) -> str:
    """The end of a text, from the beginning of a line on where there is one near."""
    cut = ending(text, most)
    start = cut.find("\n")
    return cut[start + 1 :] if len(cut) < len(text) and -1 < start < len(cut) // 3 else cut


def _link(long: LongResult, whole: object, text: str) -> dict[str, Any]:
    mime = "text/plain" if isinstance(whole, str) else "application/json"
    return {
        "type": "resource_link",
        "uri": f"{URI}{long.id}",
        "name": long.id,
        "mimeType": mime,
        "size": len(text.encode("utf-8", "replace")),
        "description": "The whole result",
    }
