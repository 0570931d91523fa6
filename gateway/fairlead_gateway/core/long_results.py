"""One result that may have more tokens than it may, and what is shown of it in its place.

Declarations only; the work itself is done elsewhere, in a process of its own.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

LEAST_TOKENS: Final = 200
MOST_TOKENS: Final = 10_000_000
META_LIMIT: Final = "fairlead.dev/resultTokens"
"""In a request's `_meta`: tokens that its result may have."""
HEADER_LIMIT: Final = b"fairlead-result-tokens"
"""Header that says the same for every request that has it."""
META_KEPT: Final = "fairlead.dev/result"
"""In the `_meta` of a result that was cut: its id, its size and what is shown of it."""
URI: Final = "fairlead://results/"
"""Prefix of the URI under which `resources/read` gives the whole of a kept result."""


class LongResult(msgspec.Struct, frozen=True):
    """A result to be shown within a number of tokens."""

    result: bytes
    """Raw MCP result of any era."""
    tokens: int
    id: str = ""
    """Entry that it is kept under."""
    reader: str = ""
    """How a model reads on: a call of a tool, with the arguments that there are."""
    lost: str = ""
    """Why it is not kept; empty where it is."""
    declared: bool = False
    """Whether its tool declares an `outputSchema`: structured content has to fit it."""
    linked: bool = False
    """Whether the client knows links to resources (MCP 2025-06-18)."""


class ShownResult(msgspec.Struct, frozen=True):
    """The part of a result that is shown."""

    tokens: int
    """Tokens of the whole."""
    result: bytes | None = None
    """Raw; None where all of it may be shown."""
    shown: int = 0
    """Tokens of the part."""
    unfit: bool = False
    """Whether its structured content cannot be made so short."""


class Shortener(Protocol):
    """Shortens results, away from the event loop."""

    async def shorten(self, long: LongResult) -> ShownResult:
        """The part of a result that is shown. Raises nothing."""
        ...


def tokens_in(text: str) -> int | None:
    """A number of tokens as a header has it; None for anything else."""
    stripped = text.strip()
    return within(int(stripped)) if stripped.isascii() and stripped.isdigit() and len(stripped) <= 9 else None


def within(tokens: object) -> int | None:
    """A number of tokens that a result may be bounded to; None for any other."""
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not LEAST_TOKENS <= tokens <= MOST_TOKENS:
        return None
    return tokens
