"""Facts about the calls of one server, from its document: limits, era, concurrency."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_WAITING: Final = 1024
QUEUE_SECONDS: Final = 10.0


class AdmissionLimits(msgspec.Struct, frozen=True):
    """`limit` calls at once, `waiting` more that wait for up to `queue` seconds; `rate` a second, None for any, of
    which `burst` may come at once after a pause, None for those of one second.
    """

    limit: int
    rate: float | None = None
    waiting: int = MAX_WAITING
    queue: float = QUEUE_SECONDS
    breaks: bool = True
    """Whether a circuit breaker guards it; False where there is no transport that could fail."""
    burst: int | None = None


class ServerTraits(msgspec.Struct, frozen=True):
    """Era and concurrency of a server, as its catalog says. A stream that negotiates knows its era better."""

    modern: bool
    limit: int = 64
    """Calls at once."""
