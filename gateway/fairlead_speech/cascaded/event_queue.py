"""Queue of events from a cascaded engine in this process to the client of its session, limited in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from fairlead_speech.sockets import TRY_AGAIN_LATER, Closing

MAX_BYTES_BEFORE_AUDIO: Final = 512 << 10
"""Queued bytes above which audio is added only after the client has read some events."""
MAX_QUEUED_BYTES: Final = 4 << 20
"""Queued bytes above which the session ends, because the client sends events but does not read the answers."""
_NOT_READ: Final = Closing(TRY_AGAIN_LATER, "the client did not read the events of the session")


class EventQueue:
    """Queue of a session's events. The last element is the close of the session."""

    def __init__(self) -> None:
        self._events: deque[bytes] = deque()
        self._queued_bytes = 0
        """Bytes of the queued events."""
        self._closing: Closing | None = None
        self._changed = asyncio.Event()
        """Set when an event is added or the queue is closed."""
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._put_count = self._handled_count = 0
        self._progress = asyncio.Event()
        """Set when an event was handled or the queue is closed."""
        self._is_handling = False
        """Whether `get` has returned an event that is not handled yet."""

    def put(self, payload: bytes) -> None:
        """Add an event, unless the queue is closed."""
        if self._closing is not None:
            return
        self._events.append(payload)
        self._put_count += 1
        self._queued_bytes += len(payload)
        if self._queued_bytes > MAX_BYTES_BEFORE_AUDIO:
            self._has_room.clear()
        if self._queued_bytes > MAX_QUEUED_BYTES:
            self.close(_NOT_READ)
        self._changed.set()

    async def put_when_room(self, payload: bytes) -> None:
        """Wait until the queue has room for audio, then add an event."""
        await self._has_room.wait()
        self.put(payload)

    async def get(self) -> bytes | Closing:
        """Wait for the next event. The call also means that the previous event has been handled."""
        if self._is_handling:
            self._is_handling = False
            self._handled_count += 1
            self._progress.set()
        while not self._events:
            if self._closing is not None:
                return self._closing
            self._changed.clear()
            await self._changed.wait()
        payload = self._events.popleft()
        self._queued_bytes -= len(payload)
        if self._queued_bytes <= MAX_BYTES_BEFORE_AUDIO:
            self._has_room.set()
        self._is_handling = True
        return payload

    async def wait_until_handled(self) -> None:
        """Wait until all events that are currently queued have been handled, or the queue is closed."""
        target_count = self._put_count
        while self._handled_count < target_count and self._closing is None:
            self._progress.clear()
            await self._progress.wait()

    def close(self, closing: Closing) -> None:
        """Close the queue. The close comes after the queued events. If the queue is closed because the client did not
        read them, they are dropped.
        """
        if self._closing is not None:
            return
        self._closing = closing
        if closing is _NOT_READ:
            self._events.clear()
            self._queued_bytes = 0
        self._has_room.set()
        self._changed.set()
        self._progress.set()
