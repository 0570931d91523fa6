"""Struct of an HTTP answer, and protocol of the connection that carried it.

They are apart from `fairlead_mcp.http.connection` because mypyc does not compile msgspec structs.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

ANSWER_HEADERS: Final = frozenset(
    {
        b"content-length",
        b"content-type",
        b"transfer-encoding",
        b"content-encoding",
        b"date",
        b"keep-alive",
        b"mcp-session-id",
        b"www-authenticate",
        b"location",
        b"etag",
        b"retry-after",
        b"cache-control",
        b"mcp-protocol-version",
    }
)
"""Names, in lower case, of the headers that an `Answer` may have."""


class Carrier(Protocol):
    """Connection as calls and answers use it."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the server; None after the connection was lost."""
        ...

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`, when the consumer is too slow. No-op on a closed connection."""
        ...

    def resume_reading(self) -> None: ...

    def close(self, error: Exception | None = None) -> None:
        """Close at once, failing the current call with `error`."""
        ...


class Cursor(msgspec.Struct, frozen=True):
    """Position from which a stream that ended without the answer can be resumed (MCP 2025-11-25, "Resumability")."""

    last_id: bytes
    """Id of the last event that was received."""
    retry: float | None
    """Seconds to wait before resuming; None if the stream did not say."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """HTTP answer.

    `headers` has the headers in `ANSWER_HEADERS`, by lower-case name. `body` is the whole body; for an event stream
    (`streamed`) it is the data of the event that is the answer, empty if the stream ended before. `sent_at` and
    `done_at` are the times of the request and of the answer, in seconds of the pool's clock.
    """

    status: int
    content_type: bytes
    headers: dict[bytes, bytes]
    body: bytes
    streamed: bool
    reused: bool
    """Whether the connection had carried earlier exchanges."""
    sent_at: float
    done_at: float
    connection: Carrier
