"""Tokens of an answer, read from the usage that a provider states, in any wire format; or estimated. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_TOKENS: Final = 10**12
"""The largest figure that is believed."""
BLOB_BYTES: Final = 4096
"""Bytes of a JSON text from which on one without a space is a file in base64."""
BLOB_TOKENS: Final = 1000
"""Estimate of an image, whatever its size in bytes."""
_Figures = Mapping[str, Any]


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens that a model has read and written."""

    input: int = 0
    """All of them, cached and written ones too."""
    output: int = 0
    """Thoughts included."""
    cached: int = 0
    """Those of the input that the provider's cache had."""
    written: int = 0
    """Those of the input that were put into the cache."""

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(mine + theirs for mine, theirs in zip(_tuple(self), _tuple(other), strict=True)))

    def __sub__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(max(mine - theirs, 0) for mine, theirs in zip(_tuple(self), _tuple(other), strict=True)))


def token_usage(usage: _Figures) -> TokenUsage:
    """The figures of a usage object of OpenAI's Chat, Responses or Realtime, of Anthropic's Messages, or of Gemini
    and its Live API; nothing where it holds none. Anthropic counts cached input apart, all others within the input.
    """
    if "promptTokenCount" in usage or "candidatesTokenCount" in usage:
        return TokenUsage(
            _figure(usage, "promptTokenCount") + _figure(usage, "toolUsePromptTokenCount"),
            _figure(usage, "candidatesTokenCount")
            + _figure(usage, "responseTokenCount")  # of Live
            + _figure(usage, "thoughtsTokenCount"),
            _figure(usage, "cachedContentTokenCount"),
        )
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        cached = _detail(usage, "prompt_tokens_details") or _figure(usage, "prompt_cache_hit_tokens")
        return TokenUsage(_figure(usage, "prompt_tokens"), _figure(usage, "completion_tokens"), cached)
    read, written = _figure(usage, "cache_read_input_tokens"), _figure(usage, "cache_creation_input_tokens")
    cached = read or _detail(usage, "input_tokens_details") or _detail(usage, "input_token_details")
    return TokenUsage(_figure(usage, "input_tokens") + read + written, _figure(usage, "output_tokens"), cached, written)


def estimated(body: bytes) -> int:
    """Tokens of a request that nobody counted: every four bytes are one, files in base64 apart."""
    blobs = [text for text in body.split(b'"') if len(text) >= BLOB_BYTES and b" " not in text and text.isascii()]
    return (len(body) - sum(map(len, blobs)) + 3) // 4 + BLOB_TOKENS * len(blobs)


def _detail(usage: _Figures, member: str) -> int:
    details = usage.get(member)
    return _figure(details, "cached_tokens") if isinstance(details, dict) else 0


def _figure(usage: _Figures, member: str) -> int:
    value = usage.get(member)
    return min(max(int(value), 0), MAX_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _tuple(usage: TokenUsage) -> tuple[int, int, int, int]:
    return usage.input, usage.output, usage.cached, usage.written
