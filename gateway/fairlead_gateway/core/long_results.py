"""Types for results that exceed a limit on tokens, and for the shortened results that replace them.

Interfaces and types only; a separate process shortens results.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from fairlead_tools.selection import ResultSelection

LEAST_TOKENS: Final = 200
"""Smallest limit on tokens that a request may set."""
MOST_TOKENS: Final = 10_000_000
"""Largest limit on tokens that a request may set."""
META_LIMIT: Final = "fairlead.dev/resultTokens"
"""Member of a request's `_meta` that limits the tokens of the result."""
HEADER_LIMIT: Final = b"fairlead-result-tokens"
"""HTTP header that limits the tokens of the result, for requests of any method."""
META_STORED: Final = "fairlead.dev/result"
"""Member of the `_meta` of a shortened result: the id and size of the full result, and the part that is shown."""
URI: Final = "fairlead://results/"
"""Prefix of the URIs under which `resources/read` returns stored results in full."""


class LongResult(msgspec.Struct, frozen=True):
    """A result to be shortened to at most `tokens` tokens."""

    result: bytes
    """Raw MCP result of either era."""
    tokens: int
    """Limit on the tokens of the shortened result."""
    id: str = ""
    """Id of the stored result."""
    reader: str = ""
    """Text of the tool call by which a model can read the rest, with its possible arguments."""
    unstored_reason: str = ""
    """Why the result is not stored; empty if it is stored."""
    declares_output: bool = False
    """Whether the tool declares an `outputSchema`, which structured content has to match."""
    supports_links: bool = False
    """Whether the client supports resource links (MCP 2025-06-18)."""


class ShownResult(msgspec.Struct, frozen=True):
    """Outcome of shortening a result."""

    tokens: int
    """Tokens of the full result."""
    result: bytes | None = None
    """The shortened raw result; None if the full result is within the limit."""
    shown_tokens: int = 0
    """Tokens of the shortened result."""
    unfit: bool = False
    """Whether the structured content cannot be shortened to the limit."""


class Shortener(Protocol):
    """Shortens results outside of the event loop."""

    async def shorten(self, long: LongResult) -> ShownResult:
        """Shorten a result. Never raises."""
        ...


class ResultSelector(Protocol):
    """Selects parts of large results outside of the event loop."""

    async def select(self, selection: ResultSelection, result: bytes) -> bytes:
        """The result with its selected part, or the whole result with a mark. Never raises."""
        ...


def tokens_in(text: str) -> int | None:
    """Parse a limit on tokens from a header; None for an invalid value."""
    stripped = text.strip()
    return valid_limit(int(stripped)) if stripped.isascii() and stripped.isdigit() and len(stripped) <= 9 else None


def valid_limit(tokens: object) -> int | None:
    """Validate a limit on tokens; None if it is not an integer between `LEAST_TOKENS` and `MOST_TOKENS`."""
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not LEAST_TOKENS <= tokens <= MOST_TOKENS:
        return None
    return tokens
