"""Struct of a server-sent event. It is not in `sse`, as mypyc compiles `sse` but no msgspec structs."""

from __future__ import annotations

import msgspec


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """Server-sent event. Lines of data are joined by LF."""

    data: bytes
    name: bytes = b"message"
    id: bytes | None = None
