"""Limits on the size and duration of clients' requests, and on their connections."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.setting_types import LONGEST_SECONDS, Seconds

MAX_FIELDS: Final = 256
"""Maximum number of header fields of one request."""
MAX_PIPELINED: Final = 128
"""Maximum number of pipelined requests of one connection, a few kB each."""
CHUNK_BYTES: Final = 32
"""Number of bytes of chunked coding, per chunk of a body, that do not count towards `head`."""


class ClientLimits(EnvironmentSettings, frozen=True, kw_only=True):
    """Limits on the requests and connections of clients. Sizes are in bytes, times in seconds."""

    head: Annotated[int, Meta(ge=1024)] = field(default=64 << 10, name="max_header_bytes")
    """Maximum number of bytes of a request's head; a larger head is answered with status 431. Checked every 16 KiB."""
    body: Annotated[int, Meta(ge=1)] = field(default=4 << 20, name="max_request_bytes")
    """Maximum number of bytes of a request's body; a larger body is answered with status 413."""
    keep_alive: Seconds = field(default=75.0, name="client_idle")
    """Seconds after which a client's idle connection is closed. Set it longer than the idle timeout of a load balancer
    in front of the gateway. Otherwise the load balancer sends requests on connections that are being closed.
    """
    head_seconds: Seconds = field(default=10.0, name="client_header_seconds")
    """Timeout in seconds for the head of a request to arrive."""
    body_seconds: Seconds = field(default=60.0, name="client_body_seconds")
    """Timeout in seconds for the body of a request to arrive."""
    silent_seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = field(default=60.0, name="client_silence")
    """Seconds without a TCP acknowledgement after which a client counts as disconnected. Its connections, streams and
    calls then end.
    """
    unread_seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = field(default=60.0, name="client_unread")
    """Seconds without reading after which a client is disconnected, if an answer or a stream waits for it, although its
    machine acknowledges packets.
    """
    connections: Annotated[int, Meta(ge=0)] = field(default=10_000, name="client_connections")
    """Maximum number of open client connections; further connections are answered with status 503. 0 sets no limit."""
    connections_each: Annotated[int, Meta(ge=0)] = field(default=0, name="client_connections_each")
    """Maximum number of open connections of one address (one /64 network for IPv6); further connections are answered
    with status 429. 0 sets a limit of three quarters of all connections, except for loopback addresses and
    `trusted_proxies`, which many clients share.
    """
    streams_each: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Maximum number of open notification streams of one agent, or of one address without a credential; further streams
    are answered with status 429. The total limit is 10,000; 0 stands for a quarter of that.
    """
