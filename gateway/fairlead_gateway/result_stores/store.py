"""Interface of the stores of tool results, and the stored entry.

Limits apply per account. An account belongs to a principal, or to one session of an anonymous caller. A session belongs
to one account; the session's id is not valid in another account.
"""

from __future__ import annotations

import hashlib
from typing import Final, Protocol

import msgspec

MAX_ENTRIES: Final = 256
"""Maximum number of entries of one account. Adding an entry reads all of them."""
OVERHEAD: Final = 512
"""Approximate bytes that an entry takes in addition to its content."""


class ContextUnavailable(Exception):
    """Failure of the store to respond, or an entry that is too large for the store. The message says which of the two
    happened."""


class SessionEntry(msgspec.Struct, frozen=True, array_like=True):
    """Stored call with its result."""

    id: str
    """`SESSION/NUMBER`, unique in its account; stores have `NUMBER` only."""
    at: float
    """Seconds since the epoch."""
    tool: str
    """Name of the tool in the request."""
    namespace: str
    server: str
    """Name of the server in this namespace."""
    own_name: str
    """Name of the tool at the server."""
    arguments: bytes
    """Raw JSON object."""
    result: bytes
    """Raw MCP result."""


class Bounds(msgspec.Struct, frozen=True):
    """Limits of a store in bytes and time."""

    seconds: float
    """Lifetime of a session after its last new entry."""
    each_bytes: int
    """Maximum number of bytes of one account; its oldest entries are deleted first."""
    total_bytes: int
    """Maximum number of bytes of all accounts; the account without a new entry for the longest time is deleted first.
    """


class ContextStore(Protocol):
    """Store of encoded entries. Every method may raise ContextUnavailable."""

    async def append(self, account: str, session: str, ident: str, entry: bytes) -> None:
        """Store an entry and restart the lifetime of its session."""
        ...

    async def entries(self, account: str, session: str) -> list[bytes]:
        """Entries of a session in any order; empty if the account has no such session."""
        ...

    async def entry(self, account: str, session: str, ident: str) -> bytes | None:
        """One entry of a session; None if the session has no such entry."""
        ...

    async def delete(self, account: str, session: str) -> int:
        """Delete a session and return the number of its entries."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


def digest(text: str) -> str:
    """Digest of a principal, session id or entry id. Stores outside of this process never get the plain values."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def size_of(entry: bytes) -> int:
    """Number of bytes by which an entry counts against the limits."""
    return len(entry) + OVERHEAD


def too_large(entry: bytes, bounds: Bounds) -> ContextUnavailable | None:
    """Error for an entry that alone exceeds the limits; None if the entry fits."""
    max_bytes = min(bounds.each_bytes, bounds.total_bytes)
    if size_of(entry) <= max_bytes:
        return None
    return ContextUnavailable(
        f"the result has {len(entry):,} bytes, but a caller may store at most {max_bytes:,} bytes"
    )
