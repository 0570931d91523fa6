"""Limits on the size and duration of clients' requests, and on their connections."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.setting_types import LONGEST_SECONDS, Seconds

MAX_FIELDS: Final = 256
"""Limit on the header fields of one request."""
MAX_PIPELINED: Final = 128
"""Limit on the pipelined requests of one connection, a few kB each."""
CHUNK_BYTES: Final = 32
"""Bytes of chunked coding per chunk of a body that do not count towards `head`."""


class ClientLimits(EnvironmentSettings, frozen=True, kw_only=True):
    """Limits on the requests and connections of clients. Sizes are in bytes, times in seconds."""

    head: Annotated[int, Meta(ge=1024)] = field(default=64 << 10, name="max_header_bytes")
    """Limit on the bytes of a request's head; a larger one is answered with status 431. Checked every 16 KiB."""
    body: Annotated[int, Meta(ge=1)] = field(default=4 << 20, name="max_request_bytes")
    """Limit on the bytes of a request's body; a larger one is answered with status 413."""
    keep_alive: Seconds = field(default=75.0, name="client_idle")
    """Seconds after which a client's idle connection is closed. Set it longer than the idle timeout of a load balancer
    in front, which otherwise sends requests on connections that are being closed.
    """
    head_seconds: Seconds = field(default=10.0, name="client_header_seconds")
    """Timeout in seconds for the head of a request to arrive."""
    body_seconds: Seconds = field(default=60.0, name="client_body_seconds")
    """Timeout in seconds for the body of a request to arrive."""
    silent_seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = field(default=60.0, name="client_silence")
    """Seconds without a TCP acknowledgement after which a client counts as disconnected, which ends its connections,
    streams and calls.
    """
    unread_seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = field(default=60.0, name="client_unread")
    """Seconds after which a client is disconnected that does not read an answer or a stream, although its machine
    acknowledges packets.
    """
    connections: Annotated[int, Meta(ge=0)] = field(default=10_000, name="client_connections")
    """Limit on open client connections; further ones are answered with status 503. 0 sets no limit."""
    connections_each: Annotated[int, Meta(ge=0)] = field(default=0, name="client_connections_each")
    """Limit on open connections of one address (one /64 network for IPv6); further ones are answered with status 429.
    With 0 the limit is three quarters of all, except for loopback addresses and `trusted_proxies`, which many clients
    share.
    """
    streams_each: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Limit on open notification streams of one agent, or of one address without a credential; further ones are
    answered with status 429. The total limit is 10,000; 0 stands for a quarter of it.
    """
