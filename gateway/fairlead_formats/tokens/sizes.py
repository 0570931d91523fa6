"""Size of each tool in tokens, counted once per definition.

Pure module. The size is the number of tokens that o200k counts in the tool's compact JSON `{name, description,
parameters}`. The size of a list of tools is estimated: the sum of these sizes, multiplied by the factor of the model's
`Family`, so that no tool is counted again. Counting takes about 40 µs per tool, so a thousand new tools are counted in
a worker process.
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
"""Maximum number of cached sizes; the least recently used size is evicted. A size takes about 300 bytes."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Size(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one definition, as o200k counts them."""

    tokens: int
    short: int
    """Tokens with shortened descriptions; equals `tokens` if nothing can be shortened."""


class Sizes:
    """Cache of sizes by hash of the definition. Thread-safe, although two threads may count the same tool at once."""

    def __init__(self, counter: TokenCounter, limit: int = MAX_SIZES) -> None:
        self.counter = counter
        self._limit = limit
        self._sizes: OrderedDict[bytes, Size] = OrderedDict()

    def of(self, definition: bytes | Mapping[str, Any], key: bytes | None = None) -> Size:
        """The size of an MCP definition, encoded or decoded. A definition that is not a JSON object is counted as text.

        `key`: hash of the whole definition including the name, if the caller has the hash.
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
        """Whether the cache holds the size of the definition with this hash."""
        return key in self._sizes

    def keep(self, key: bytes, size: Size) -> None:
        """Store a size that another thread or process has counted."""
        self._sizes[key] = size
        while len(self._sizes) > self._limit:
            self._sizes.popitem(last=False)

    def __len__(self) -> int:
        return len(self._sizes)

    def _touch(self, key: bytes) -> None:
        try:
            self._sizes.move_to_end(key)
        except KeyError:  # another thread evicted the entry in between
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
    """The text to count: the parts of a definition that models receive, as compact JSON."""
    model_members = {"name": definition.get("name")}
    if definition.get("description"):
        model_members["description"] = definition["description"]
    model_members["parameters"] = definition.get("inputSchema") or {}
    return _encode(model_members).decode()
