"""Shortens a tool's result to a number of tokens: a description of its shape, its beginning and its end. Does no I/O.

Lines have the same numbers as in the arguments `range` and `grep` for stored results, so that a model can read on where
the beginning ends. Structured content must match the tool's `outputSchema` (MCP 2025-11-25, "Output Schema"). Shortened
structured content therefore retains members and types, and loses items of arrays and ends of long strings. If a tool
declares no `outputSchema`, MCP does not require structured content, so it is left out.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_formats.tokens.conversation import DOCUMENT_BYTES_PER_TOKEN
from fairlead_formats.tokens.media import audio_tokens, image_tokens
from fairlead_gateway.core.long_results import META_STORED, URI, LongResult, ShownResult
from fairlead_mcp import eras
from fairlead_offers.job import Job
from fairlead_offers.results.result_documents import document
from fairlead_search.passages import write_out
from fairlead_search.shapes import shape
from fairlead_search.token_estimate import BYTES_PER_TOKEN, cut_start_to_tokens, cut_to_tokens, tokens

FOLLOWS_TOKENS: Final = 40
"""Tokens of the sentence that says which lines of the result are shown."""
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
"""Levels of reduction, the weakest first: maximum items of an array, characters of a string, and members of an object
(0: all).
"""
_RESERVED_PREFIXES: Final = ("fairlead.dev/", eras.PREFIX)
_decode: Final = msgspec.msgpack.Decoder(LongResult).decode
SHORTEN: Final = Job[ShownResult]("shorten", ShownResult)


def shorten(work: bytes) -> ShownResult:
    """Shorten a `LongResult` that is encoded as MessagePack."""
    return shorten_result(_decode(work))


def shorten_result(long_result: LongResult) -> ShownResult:
    """Shorten a result to the part that the model sees. Results within their limit are not changed."""
    try:
        members = msgspec.json.decode(long_result.result, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        members = {"content": [{"type": "text", "text": long_result.result.decode("utf-8", "replace")}]}
    content = members.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    structured = members.get("structuredContent")
    total_tokens = max(sum(map(block_tokens, blocks)), _size(structured) if structured is not None else 0)
    if total_tokens <= long_result.tokens:
        return ShownResult(total_tokens)
    parts, length = _content(long_result, document(long_result.result), blocks, total_tokens)
    shortened: dict[str, Any] = {
        name: value
        for name, value in members.items()
        if name not in ("content", "structuredContent", "_meta") and _size(value) <= long_result.tokens
    }
    shortened["content"] = parts
    if structured is not None and long_result.declares_output:
        reduced = reduce_value(structured, long_result.tokens)
        if reduced is None:
            return ShownResult(total_tokens, unfit=True)
        shortened["structuredContent"] = reduced
        length = max(length, _size(reduced))
    meta = members.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    if _size(meta) > long_result.tokens:
        meta = {name: value for name, value in meta.items() if name.startswith(_RESERVED_PREFIXES)}
    facts = {
        "kept": not long_result.unstored_reason,
        "tokens": total_tokens,
        "shownTokens": length,
        "bytes": len(long_result.result),
    }
    shortened["_meta"] = {
        **meta,
        META_STORED: {
            **({"id": long_result.id} if not long_result.unstored_reason else {"reason": long_result.unstored_reason}),
            **facts,
        },
    }
    return ShownResult(total_tokens, msgspec.json.encode(shortened), length)


def block_tokens(block: dict[str, Any]) -> int:
    """Estimate the tokens of a content block: text by its bytes, images and audio by the most expensive provider."""
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
        return audio_tokens(blob) if mime.startswith("audio/") else len(blob) * 3 // 4 // DOCUMENT_BYTES_PER_TOKEN + 1
    return _size(block)


def reduce_value(value: object, max_tokens: int) -> object | None:
    """Reduce a JSON value to a number of tokens, without changing the type of any member. Returns None if that is not
    possible.
    """
    for items, characters, members in _LEVELS:
        reduced = _prune(value, items, characters, members)
        if _size(reduced) <= max_tokens:
            return reduced
    return None


def _prune(value: Any, items: int, characters: int, members: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= characters else value[: characters - 1] + "…"
    if isinstance(value, list):
        return [_prune(item, items, characters, members) for item in value[:items]]
    if isinstance(value, dict):
        first_members = [*value.items()][: members or None]
        return {name: _prune(item, items, characters, members) for name, item in first_members}
    return value


def _size(value: object) -> int:
    return -(-len(msgspec.json.encode(value)) // BYTES_PER_TOKEN)


def _content(
    long_result: LongResult, result: object, blocks: list[dict[str, Any]], size: int
) -> tuple[list[dict[str, Any]], int]:
    """Blocks that the model sees, and the number of their tokens."""
    text = write_out(result)
    count = len(text.splitlines())
    link = _link(long_result, result, text) if long_result.supports_links and not long_result.unstored_reason else None
    media, tokens_left = _media(blocks, long_result.tokens - (_size(link) if link else 0))
    note = _note(long_result, size)
    shape_text = cut_to_tokens("\n".join(shape(result)), tokens_left // 4)
    tokens_left = max(0, tokens_left - tokens(note) - tokens(shape_text) - FOLLOWS_TOKENS)
    head = _head(text, tokens_left * 2 // 3)
    tail = _tail(text[len(head) :], tokens_left - tokens(head))
    first, last = len(head.splitlines()), count - len(tail.splitlines()) + 1
    follow_sentence = (
        f"Lines 1-{first}" + (f" and {last}-{count}" if tail else "") + f" of {count} follow, word for word."
    )
    content: list[dict[str, Any]] = [{"type": "text", "text": f"{note} {follow_sentence}\nShape:\n{shape_text}"}]
    content += [{"type": "text", "text": part} for part in (head, tail) if part]
    content += media
    if link:
        content.append(link)
    return content, sum(map(block_tokens, content))


def _note(long_result: LongResult, total_tokens: int) -> str:
    size = f"This result has about {total_tokens:,} tokens, of which at most {long_result.tokens:,} are shown."
    if long_result.unstored_reason:
        reason = long_result.unstored_reason
        return f"{size} The rest is lost ({reason}): call the tool so that it returns less, if it allows that."
    return f"{size} The whole result is stored as {long_result.id}: {long_result.reader}."


def _media(blocks: list[dict[str, Any]], tokens_left: int) -> tuple[list[dict[str, Any]], int]:
    """Select the images and audio that fit into half of `tokens_left`. Returns these blocks and the remaining tokens,
    which are for text.
    """
    selected: list[dict[str, Any]] = []
    media_tokens_left = tokens_left // 2
    for block in blocks:
        if block.get("type") in ("image", "audio") and block_tokens(block) <= media_tokens_left:
            selected.append(block)
            media_tokens_left -= block_tokens(block)
            tokens_left -= block_tokens(block)
    return selected, tokens_left


def _head(text: str, max_tokens: int) -> str:
    """Beginning of a text, at most `max_tokens` tokens. It ends with a whole line if a line ends near the limit."""
    cut = cut_to_tokens(text, max_tokens)
    end = cut.rfind("\n")
    return cut[: end + 1] if len(cut) < len(text) and end > len(cut) * 2 // 3 else cut


def _tail(text: str, max_tokens: int) -> str:
    """End of a text, at most `max_tokens` tokens. It begins with a whole line if a line begins near the limit."""
    cut = cut_start_to_tokens(text, max_tokens)
    start = cut.find("\n")
    return cut[start + 1 :] if len(cut) < len(text) and -1 < start < len(cut) // 3 else cut


def _link(long_result: LongResult, result: object, text: str) -> dict[str, Any]:
    mime = "text/plain" if isinstance(result, str) else "application/json"
    return {
        "type": "resource_link",
        "uri": f"{URI}{long_result.id}",
        "name": long_result.id,
        "mimeType": mime,
        "size": len(text.encode("utf-8", "replace")),
        "description": "The whole result",
    }
