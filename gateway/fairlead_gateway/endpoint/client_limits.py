"""Limits on the sizes and times of clients' requests and on their connections."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.setting_types import LONGEST_SECONDS, Seconds

MAX_FIELDS: Final = 256
"""Header fields of one request."""
MAX_PIPELINED: Final = 128
"""Requests of one connection that wait for the response to the one before (pipelining); some kB each."""
CHUNK_BYTES: Final = 32
"""Bytes of the lines around a chunk of a body that do not count towards `head`."""
STALLED_SECONDS: Final = 60.0
"""A client that does not read its answers for so long is cut off."""


class ClientLimits(EnvironmentSettings, frozen=True, kw_only=True):
    """Limits on the requests and connections of clients. Sizes in bytes, times in seconds."""

    head: Annotated[int, Meta(ge=1024)] = field(default=64 << 10, name="max_header_bytes")
    """Bytes of a request's head; a larger one is answered with status 431. Looked at every 16 KiB."""
    body: Annotated[int, Meta(ge=1)] = field(default=4 << 20, name="max_request_bytes")
    """Bytes of a request's body; a larger one is answered with status 413."""
    keep_alive: Seconds = field(default=75.0, name="client_idle")
    """Seconds that a client's connection is kept without a request. Longer than a load balancer in front keeps it, or
    that sends requests into connections that are being closed.
    """
    head_seconds: Seconds = field(default=10.0, name="client_header_seconds")
    """Seconds in which the head of a request has to arrive."""
    body_seconds: Seconds = field(default=60.0, name="client_body_seconds")
    """Seconds in which its body has to."""
    silent_seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = field(default=60.0, name="client_silence")
    """Seconds without an acknowledgement by a client's machine until it counts as gone, and what it has open is ended:
    connections, streams and calls.
    """
    connections: Annotated[int, Meta(ge=0)] = field(default=10_000, name="client_connections")
    """Connections of clients at once; more are answered with status 503. 0 takes any number."""
    connections_each: Annotated[int, Meta(ge=0)] = field(default=0, name="client_connections_each")
    """Connections of one address, of IPv6 one /64 network, at once; more are answered with status 429. 0: three
    quarters of all, but for this machine's own address and those of `trusted_proxies`, which many clients share.
    """
    streams_each: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Streams of notifications that one agent, or one address without a credential, has open at once, of the 10,000 of
    all; more are answered with status 429. 0: a quarter.
    """
