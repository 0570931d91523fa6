"""Removal of parts of structured content that blocks of the same result repeat, so that the model reads each part once.

Pure module. Repetitions are usual: MCP advises a text block with the JSON of `structuredContent`, and the Python SDK
wraps a tool's return value as `{"result": …}`, including the base64 of images. A part is a repetition if it equals a
block or a block's long text, or if it is a block's data as base64, in any alphabet, wrapped in lines, or as a `data:`
URL. In doubt a part stays, because the model should rather read it twice than not at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from fairlead_formats.messages.call import MAX_DEPTH, MAX_NODES, kind_of

MIN_DATA: Final = 16
"""Minimum number of base64 characters that count as a repetition; shorter strings may be equal by coincidence."""
MIN_TEXT: Final = 64
"""Minimum number of characters of a text that a mark replaces. A shorter text costs few tokens and is easier to read in
its place than the mark.
"""
WRAP: Final = "result"
"""Member in which SDKs wrap a structured result that is not an object."""

_HEAD: Final = MIN_DATA
"""Number of characters of base64 that are compared first."""
_BLOCKS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})
_DATA_URL: Final = re.compile(r"data:[^,\s\"'()]{0,128};base64,([A-Za-z0-9+/=_%-]+)", re.IGNORECASE)
_decode = msgspec.json.Decoder().decode
_canonical = msgspec.json.Encoder(order="deterministic").encode


class _TooMany(Exception):
    """The value has more nodes or levels than `MAX_NODES` and `MAX_DEPTH` allow."""


def canonical_base64(data: str) -> str:
    """The base64 in the standard alphabet, without `data:` prefix, white space and padding. The content is not
    validated.
    """
    if data[:5].lower() == "data:":
        head, comma, rest = data.partition(",")
        data = rest if comma and head[-7:].lower() == ";base64" else data
    if "%" in data:
        data = unquote(data, errors="replace")
    if len(data.split(None, 1)) > 1 or data[-1:].isspace() or data[:1].isspace():
        data = "".join(data.split())
    return data.replace("-", "+").replace("_", "/").rstrip("=")


def json_equal(first: object, second: object) -> bool:
    """Whether two decoded JSON values are equal; unlike in Python, `true` differs from 1."""
    try:
        return bool(first == second) and _canonical(first) == _canonical(second)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


class RepeatedContent:
    """Replaces each part of structured content that a block repeats with a mark, such as `[block 1 of this result]`.
    `replaced` counts the marks.
    """

    def __init__(self, blocks: Sequence[object]) -> None:
        self.replaced = 0
        self._data: dict[str, str] = {}
        """Maps base64 of a block to the mark that replaces repetitions of it."""
        self._texts: dict[str, str] = {}
        """Maps long texts of blocks to their marks."""
        self._by_key: dict[tuple[object, str], tuple[dict[str, Any], str]] = {}
        """Maps the `_key` of a block to the block and its mark."""
        self._nodes_left = 0
        """Number of values that may still be visited (`MAX_NODES`)."""
        self._blocks = blocks
        for number, block in enumerate(blocks, 1):
            if isinstance(block, dict):
                self._index_block(block, number)
        self._heads = frozenset(data[:_HEAD] for data in self._data)
        self._marks = frozenset(mark for _, mark in self._by_key.values())

    def replace_repeats(self, structured: Any) -> Any:
        """The value with a short mark in place of each part that a block repeats; the same object if there is none.
        Values beyond the limits of a result are returned unchanged.
        """
        if not self._by_key:
            return structured
        self._nodes_left = MAX_NODES
        try:
            return self._prune(structured, MAX_DEPTH)
        except _TooMany:
            self.replaced = 0
            return structured

    def only_marks(self, value: Any) -> bool:
        """Whether only marks are left of a value, or of the value that `WRAP` holds."""
        if not self.replaced:
            return False
        inner = _unwrap(value)
        entries = inner if isinstance(inner, list) else [inner]
        return bool(entries) and all(isinstance(item, str) and item in self._marks for item in entries)

    def repeats_all(self, structured: Any) -> bool:
        """Whether the blocks hold all entries of the value that `WRAP` holds, in order. False for a value without
        `WRAP`.
        """
        inner = _unwrap(structured)
        if inner is structured:
            return False
        blocks = iter(self._blocks)
        entries = inner if isinstance(inner, list) and inner else [inner]
        return any(_repeats(block, inner) for block in self._blocks) or all(
            any(_repeats(block, item) for block in blocks) for item in entries
        )

    def _index_block(self, block: dict[str, Any], number: int) -> None:
        kind = block.get("type")
        inner = block.get("resource") if kind == "resource" else block
        if kind not in _BLOCKS or not isinstance(inner, dict):
            return
        text, data = inner.get("text"), inner.get("blob" if kind == "resource" else "data")
        mark = f"[block {number} of this result]"
        if isinstance(data, str):
            data = canonical_base64(data)
            mime = inner.get("mimeType")
            mime_text = f"{mime}, " if isinstance(mime, str) and len(mime) < 100 else ""
            mark = f"[block {number} of this result: {mime_text}{len(data) * 3 // 4} bytes]"
            if len(data) >= MIN_DATA:
                self._data.setdefault(data, mark)
        elif isinstance(text, str) and len(text) >= MIN_TEXT:
            self._texts.setdefault(text, mark)
        self._by_key.setdefault(_key(block), (block, mark))

    def _prune(self, value: Any, depth: int) -> Any:
        self._nodes_left -= 1
        if self._nodes_left < 0 or depth < 0:
            raise _TooMany
        if isinstance(value, str):
            return self._prune_string(value) if len(value) >= MIN_DATA else value
        if isinstance(value, dict):
            mark = self._block_mark(value)
            if mark is not None:
                return mark
            members = {key: self._prune(item, depth - 1) for key, item in value.items()}
            return members if any(members[key] is not value[key] for key in members) else value
        if isinstance(value, list):
            entries = [self._prune(item, depth - 1) for item in value]
            return entries if any(new is not old for new, old in zip(entries, value, strict=True)) else value
        return value

    def _prune_string(self, value: str) -> str:
        mark = self._texts.get(value) if len(value) >= MIN_TEXT else None
        if mark is None and self._data:
            mark = self._data_mark(value)
            if mark is None and ";base64," in value:
                return _DATA_URL.sub(lambda match: self._mark_or(self._data_mark(match[1]), match[0]), value)
        return self._mark_or(mark, value)

    def _data_mark(self, value: str) -> str | None:
        """The mark of the block with this base64; None without one. A comparison of the first characters rules out most
        strings cheaply.
        """
        start = value.find(",", 0, 256) + 1 if value[:5].lower() == "data:" else 0
        head = canonical_base64(value[start : start + 4 * _HEAD])[:_HEAD]
        return self._data.get(canonical_base64(value)) if head in self._heads else None

    def _block_mark(self, value: dict[str, Any]) -> str | None:
        """The mark of the block that equals an object, which is counted in `replaced`; None without such a block."""
        if value.get("type") not in _BLOCKS or (candidate := self._by_key.get(_key(value))) is None:
            return None
        block, mark = candidate
        return self._mark_or(mark, "") if json_equal(_without_nulls(value), _without_nulls(block)) else None

    def _mark_or(self, mark: str | None, value: str) -> str:
        """The mark, which is counted in `replaced`; the value if the mark is None."""
        self.replaced += mark is not None
        return value if mark is None else mark


def _unwrap(value: Any) -> Any:
    return value[WRAP] if isinstance(value, dict) and value.keys() == {WRAP} else value


def _repeats(block: object, value: object) -> bool:
    """Whether a block equals the value, or is a text block with the value: a string as it is, other values as JSON."""
    if not isinstance(block, dict):
        return False
    if isinstance(value, dict) and json_equal(_without_nulls(value), _without_nulls(block)):
        return True
    text = block.get("text") if block.get("type") == "text" else None
    if not isinstance(text, str) or isinstance(value, str):
        return text is not None and text == value
    try:
        return json_equal(_decode(text), value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _key(block: dict[str, Any]) -> tuple[object, str]:
    """Key of a block in an index: type, and the beginning of the content that distinguishes it."""
    resource = block.get("resource")
    inner = resource if isinstance(resource, dict) else block
    for member in ("data", "blob", "text", "uri"):
        if isinstance(content := inner.get(member), str):
            return block["type"], f"{member} {len(content)} {content[:256]}"
    return block["type"], kind_of(resource)


def _without_nulls(block: dict[str, Any]) -> dict[str, Any]:
    """A block without null members, which SDKs write in structured content and omit in blocks."""
    without_nulls = {name: value for name, value in block.items() if value is not None}
    if isinstance(resource := without_nulls.get("resource"), dict):
        without_nulls["resource"] = {name: value for name, value in resource.items() if value is not None}
    return without_nulls
