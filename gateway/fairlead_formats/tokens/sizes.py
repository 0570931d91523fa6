"""Size of each tool in tokens, counted once per definition.

Pure module. The size of a tool is o200k's count of its compact JSON `{name, description, parameters}`: a plan adds
these numbers, times the factors of `families`, and counts nothing. Counting costs about 40 µs a tool; a thousand new
ones are counted in a worker.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.tokens.counting import TokenCounter
from fairlead_formats.tokens.shorten import shorten

MAX_SIZES: Final = 50_000
"""Definitions whose sizes are kept; the least recently asked for goes first. A size takes about 300 bytes."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Size(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one definition."""

    tokens: int
    short: int
    """With shortened descriptions; equal to `tokens` where there is nothing to shorten."""


class Sizes:
    """Sizes by definition hash. Safe from several threads: at worst two of them count the same tool."""

    def __init__(self, counter: TokenCounter, limit: int = MAX_SIZES) -> None:
        self.counter = counter
        self._limit = limit
        self._sizes: OrderedDict[bytes, Size] = OrderedDict()

    def of(self, definition: bytes | Mapping[str, Any], key: bytes | None = None) -> Size:
        """The size of an MCP definition, raw or decoded. `key` is its hash where the caller has one; it must be over
        all that is shown, name included. A definition that is not a JSON object costs what its bytes do.
        """
        raw = definition if isinstance(definition, bytes) else None
        if key is None:
            raw = raw if raw is not None else _encode(definition)
            key = hashlib.blake2b(raw, digest_size=16).digest()
        size = self._sizes.get(key)
        if size is not None:
            self._touch(key)
            return size
        size = self._measure(definition)
        self.keep(key, size)
        return size

    def has(self, key: bytes) -> bool:
        """Whether the size of the definition with that hash is kept."""
        return key in self._sizes

    def keep(self, key: bytes, size: Size) -> None:
        """A size that was counted elsewhere."""
        self._sizes[key] = size
        while len(self._sizes) > self._limit:
            self._sizes.popitem(last=False)

    def __len__(self) -> int:
        return len(self._sizes)

    def _touch(self, key: bytes) -> None:
        try:
            self._sizes.move_to_end(key)
        except KeyError:  # another thread made room meanwhile
            return

    def _measure(self, definition: bytes | Mapping[str, Any]) -> Size:
        decoded = _decode_definition(definition)
        if decoded is None:
            tokens = self.counter.count(definition.decode("utf-8", "replace") if isinstance(definition, bytes) else "")
            return Size(tokens, tokens)
        tokens = self.counter.count(render(decoded))
        short = shorten(decoded)
        return Size(tokens, tokens if short is decoded else min(tokens, self.counter.count(render(short))))


def _decode_definition(definition: bytes | Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not isinstance(definition, bytes):
        return definition
    try:
        value = _decode(definition)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def render(definition: Mapping[str, Any]) -> str:
    """The text that is counted: what models are told of a tool, as compact JSON."""
    shown = {"name": definition.get("name")}
    if definition.get("description"):
        shown["description"] = definition["description"]
    shown["parameters"] = definition.get("inputSchema") or {}
    return _encode(shown).decode()
