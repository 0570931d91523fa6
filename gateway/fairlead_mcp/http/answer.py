"""An HTTP answer, and what may be known of the connection that carried it.

Declarations only. `fairlead_mcp.http.connection` makes them; apart from it because what msgspec makes a class of is not
compiled.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

WANTED: Final = frozenset(
    {
        b"content-length",
        b"content-type",
        b"transfer-encoding",
        b"content-encoding",
        b"keep-alive",
        b"mcp-session-id",
        b"www-authenticate",
        b"location",
        b"retry-after",
        b"mcp-protocol-version",
    }
)
"""The header names that are kept, in lower case."""


class Carrier(Protocol):
    """Connection, as a call and an answer see it."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the other side; None where it is not known any more."""
        ...

    def pause_reading(self) -> None:
        """Stop reading, for a stream whose consumer cannot follow. No-op on a closed connection."""
        ...

    def resume_reading(self) -> None: ...

    def close(self, error: Exception | None = None) -> None:
        """Close at once, failing the call that it carries with `error`."""
        ...


class Cursor(msgspec.Struct, frozen=True):
    """Where a stream that ended without its answer may be taken up again (MCP 2025-11-25, "Resumability")."""

    last_id: bytes
    retry: float | None
    """Seconds to wait before, where the stream said so."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An HTTP answer.

    `headers` holds those of `WANTED` that came, by lower-case name. `body` is the whole body, or, for an event stream
    (`streamed`), the data of the event that `on_event` called the answer (empty if the stream ended without one).
    `sent_at` and `done_at` are the pool's clock, in seconds, at the first byte out and at the answer.
    """

    status: int
    content_type: bytes
    headers: dict[bytes, bytes]
    body: bytes
    streamed: bool
    reused: bool
    sent_at: float
    done_at: float
    connection: Carrier
