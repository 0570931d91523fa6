"""Buffer of bytes that a connection has received. A large read is parsed in portions, one per iteration of the event
loop, so that other connections do not wait for the whole read.

Reading from the transport is paused while portions wait. While the connection itself pauses reading, no portion is
parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SLICE: Final = 16 << 10
"""Number of bytes that the parser gets at once. Limits are checked after each such slice, and can be exceeded by this
many bytes."""
PORTION: Final = 64 << 10
"""Number of bytes that are parsed in one iteration of the event loop, in about 20 µs. The loop reads up to four times
as much at once."""
MAX_UNBUFFERED: Final = PORTION + (16 << 10)
"""Maximum number of bytes of a read that is parsed at once: a portion of the body, and the head before it."""


class ReadBuffer:
    """Received but unparsed bytes of one connection. They are passed to the parser, `feed`.

    `pause` and `resume` control the reading from the client.
    """

    __slots__ = ("_feed", "_loop", "_scheduled", "_transport", "_waiting", "paused")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, feed: Callable[[bytes | memoryview], None]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._feed = feed
        self._waiting: list[memoryview] = []
        self._scheduled: asyncio.Handle | None = None
        self.paused = False

    @property
    def waiting(self) -> bool:
        """Whether bytes wait for a later iteration of the event loop."""
        return bool(self._waiting)

    def receive(self, data: bytes) -> None:
        """Take bytes that were just read, and feed them at once or in portions."""
        if self._waiting or len(data) > MAX_UNBUFFERED:
            self.add(data)
        else:
            self.feed(memoryview(data))

    def add(self, data: bytes) -> None:
        """Queue bytes for later iterations of the event loop."""
        self._transport.pause_reading()
        view = memoryview(data)
        self._waiting.extend(view[start : start + PORTION] for start in range(0, len(data), PORTION))
        self._schedule()

    def feed(self, data: memoryview) -> None:
        """Feed bytes at once, in slices. If a slice makes the connection pause reading, the rest is put back in front
        of the queue.
        """
        for start in range(0, len(data), SLICE):
            if self.paused:
                self._waiting.insert(0, data[start:])
                return
            if self._transport.is_closing():
                return
            self._feed(data[start : start + SLICE])

    def on_disconnect(self) -> None:
        """Drop the queued bytes, and the reference to the closed connection."""
        self._feed = _ignore
        self._waiting.clear()
        if self._scheduled is not None:
            self._scheduled.cancel()

    def pause(self) -> None:
        if not self.paused:
            self.paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._schedule()

    def _schedule(self) -> None:
        if self.paused or self._scheduled is not None:
            return
        if self._waiting:
            self._scheduled = self._loop.call_soon(self._next)
        else:
            self._transport.resume_reading()

    def _next(self) -> None:
        if not self.paused and self._waiting:
            self.feed(self._waiting.pop(0))
        self._scheduled = None
        if self._transport.is_closing():
            self._waiting.clear()
        else:
            self._schedule()


def _ignore(data: bytes | memoryview) -> None:
    """Discard bytes of a closed connection."""
