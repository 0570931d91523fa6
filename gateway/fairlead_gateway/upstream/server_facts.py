"""Limits and era of one server, from its catalog."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_WAITING: Final = 1024
QUEUE_SECONDS: Final = 10.0


class AdmissionLimits(msgspec.Struct, frozen=True):
    """Limits on the calls to one server."""

    limit: int
    """Maximum number of concurrent calls."""
    rate: float | None = None
    """Calls a second; None for no limit."""
    waiting: int = MAX_WAITING
    """Maximum number of waiting calls."""
    queue: float = QUEUE_SECONDS
    """Maximum wait in seconds."""
    breaks: bool = True
    """Whether the server has a circuit breaker; False for a server without a transport that can fail."""
    burst: int | None = None
    """Maximum number of calls that the rate limit admits at once after a pause; None for the calls of one second."""


class ServerTraits(msgspec.Struct, frozen=True):
    """Era and concurrency of a server from its catalog. The handshake of a stream may yield another era."""

    modern: bool
    limit: int = 64
    """Limit on concurrent calls."""
