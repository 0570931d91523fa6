"""Buffer of received bytes, parsed one portion per turn of the loop, so that other calls wait for one portion at most.

The transport is not read while a portion waits, and no portion is parsed while reading is paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SLICE: Final = 16 << 10
"""Bytes fed to the parser at once, so that a limit is exceeded by no more than this."""
PORTION: Final = 64 << 10
"""Bytes parsed in one turn: about 20 µs. The loop reads up to four times as much at once."""
MANY: Final = PORTION + (16 << 10)
"""Bytes that are worth it: with its head, the first part of a large body is a little more than a portion."""


class ReadBuffer:
    """Received bytes of one connection that are not parsed yet, and the switch that pauses its reading."""

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
        """Whether bytes wait for a later turn."""
        return bool(self._waiting)

    def receive(self, data: bytes) -> None:
        """Feed what was just read, now or in turns."""
        if self._waiting or len(data) > MANY:
            self.add(data)
        else:
            self.feed(memoryview(data))

    def add(self, data: bytes) -> None:
        """Feed it in later turns."""
        self._transport.pause_reading()
        view = memoryview(data)
        self._waiting.extend(view[start : start + PORTION] for start in range(0, len(data), PORTION))
        self._schedule()

    def feed(self, data: memoryview) -> None:
        """Feed it now, in slices; what is left when reading is paused waits in front of all else."""
        for start in range(0, len(data), SLICE):
            if self.paused:
                self._waiting.insert(0, data[start:])
                return
            if self._transport.is_closing():
                return
            self._feed(data[start : start + SLICE])

    def lost(self) -> None:
        """Drop what waits, and the connection, which is gone and knows us."""
        self._feed = _ignored
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


def _ignored(data: bytes | memoryview) -> None:
    """Take bytes of a connection that is gone."""
