"""A server-sent event. Apart from `sse`, which makes them, because what msgspec makes a class of is not compiled."""

from __future__ import annotations

import msgspec


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its data with lines joined by LF, its name ("message" by default) and its id if it has one."""

    data: bytes
    name: bytes = b"message"
    id: bytes | None = None
