"""One kept result, and the port of the stores that keep it.

Accounts are what bounds hold for: a principal, or one session of an anonymous caller. A session belongs to one account,
and its name means nothing in another.
"""

from __future__ import annotations

import hashlib
from typing import Final, Protocol

import msgspec

MAX_ENTRIES: Final = 256
"""Entries of one account; each new one looks at all of them."""
OVERHEAD: Final = 512
"""Bytes, about, that an entry takes beside what it holds."""


class ContextUnavailable(Exception):
    """The store does not answer, or takes no entry of that size. The message says which."""


class SessionEntry(msgspec.Struct, frozen=True, array_like=True):
    """One call and its result."""

    id: str
    """`SESSION/NUMBER`, unique in its account; `NUMBER` alone where it is stored."""
    at: float
    """Seconds since the epoch."""
    tool: str
    """Name of the tool in the request."""
    namespace: str
    server: str
    """Server in that namespace."""
    own_name: str
    """As the server calls the tool."""
    arguments: bytes
    """Raw JSON object."""
    result: bytes
    """Raw MCP result."""


class Bounds(msgspec.Struct, frozen=True):
    """How much is kept, and for how long."""

    seconds: float
    """From the last entry of a session on."""
    each_bytes: int
    """Bytes in one account; its oldest entries go first."""
    total_bytes: int
    """Bytes in all accounts; the one without a new entry for longest goes first."""


class ContextStore(Protocol):
    """Keeper of encoded entries. Every method may raise ContextUnavailable."""

    async def append(self, account: str, session: str, ident: str, entry: bytes) -> None:
        """Keep an entry, and its whole session for the full time from now on."""
        ...

    async def entries(self, account: str, session: str) -> list[bytes]:
        """Those of a session, in any order; none for one that the account does not have."""
        ...

    async def entry(self, account: str, session: str, ident: str) -> bytes | None:
        """One entry of a session."""
        ...

    async def delete(self, account: str, session: str) -> int:
        """Forget a session; how many entries it had."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


def digest(text: str) -> str:
    """Digest of a principal, a session id or an entry's id: no store outside of this process holds these themselves."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def size_of(entry: bytes) -> int:
    """Bytes that an entry is counted as."""
    return len(entry) + OVERHEAD


def too_large(entry: bytes, bounds: Bounds) -> ContextUnavailable | None:
    """Why an entry cannot be kept at all; None: it can."""
    most = min(bounds.each_bytes, bounds.total_bytes)
    if size_of(entry) <= most:
        return None
    return ContextUnavailable(f"the result has {len(entry):,} bytes, and one caller's results may have {most:,}")
