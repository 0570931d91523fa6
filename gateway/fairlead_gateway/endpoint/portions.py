"""Much that was read at once, handed on a portion in each turn of the loop: calls of others wait for a portion at most.

Made by `server`, one per connection, which has uvicorn's flow control speak to it in place of the transport: nothing is
read while a portion waits, and no portion is handed on while the reader wants nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_gateway.endpoint.lane import SLICE

PORTION: Final = 64 << 10
"""Bytes: about 20 µs of parsing. The loop reads up to four times as much at once."""

MANY: Final = PORTION + (16 << 10)
"""Bytes that are worth it: with its head, the first part of a large body is a little more than a portion."""


class Portions:
    """See the module. *Held* while its reader wants nothing."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, feed: Callable[[memoryview], None]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._feed = feed
        self._waiting: list[memoryview] = []
        self._turn: asyncio.Handle | None = None
        self._held = False

    def __bool__(self) -> bool:
        """Whether something waits, which is to be read before what comes now."""
        return bool(self._waiting)

    def add(self, data: bytes) -> None:
        """Hand it on when its turn comes."""
        self._transport.pause_reading()
        view = memoryview(data)
        self._waiting.extend(view[start : start + PORTION] for start in range(0, len(data), PORTION))
        self._plan()

    def lost(self) -> None:
        """The connection is gone, and what waits with it."""
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()

    def feed(self, data: memoryview) -> None:
        """Hand it on now, in slices; what is left when its reader wants nothing more waits, before all else."""
        for start in range(0, len(data), SLICE):
            if self._held:
                self._waiting.insert(0, data[start:])
                return
            if self._transport.is_closing():
                return
            self._feed(data[start : start + SLICE])

    # Called by flow control

    def pause_reading(self) -> None:
        self._held = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._held = False
        self._plan()

    # Inside

    def _plan(self) -> None:
        if self._held or self._turn is not None:
            return
        if self._waiting:
            self._turn = self._loop.call_soon(self._next)
        else:
            self._transport.resume_reading()

    def _next(self) -> None:
        if not self._held:
            self.feed(self._waiting.pop(0))
        self._turn = None
        if self._transport.is_closing():
            self._waiting.clear()
        else:
            self._plan()
