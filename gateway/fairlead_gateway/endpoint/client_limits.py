"""Limits on the sizes and times of clients' requests and on their connections."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_FIELDS: Final = 256
"""Header fields of one request."""
MAX_PIPELINED: Final = 128
"""Requests of one connection that wait for the response to the one before (pipelining); some kB each."""
CHUNK_BYTES: Final = 32
"""Bytes of the lines around a chunk of a body that do not count towards `head`."""


class ClientLimits(msgspec.Struct, frozen=True):
    """Limits of one listener, from the settings. Sizes in bytes, times in seconds."""

    head: int = 64 << 10
    """Bytes of one request without its body: head, chunk extensions and trailers, together."""
    body: int = 4 << 20
    keep_alive: float = 75.0
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    stalled_seconds: float = 60.0
    """A client that does not read its answers for so long is cut off."""
    connections: int = 0
    """At once; 0 for any number."""
    connections_each: int = 0
    """At once from one address; 0 for any number."""
    silent_seconds: float = 60.0
    """A connection whose other side acknowledges nothing for so long is closed: its machine or the network failed."""
