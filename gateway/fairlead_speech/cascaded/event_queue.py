"""Queue of events from an engine in this process to its client, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from fairlead_speech.sockets import TRY_AGAIN_LATER, Closing

AUDIO_BYTES: Final = 512 << 10
"""Queued bytes above which audio waits."""
MAX_QUEUED_BYTES: Final = 4 << 20
"""Queued bytes at which the session ends: answers to a client that sends and does not read."""
_FLOODED: Final = Closing(TRY_AGAIN_LATER, "the client did not read what the engine said")


class EventQueue:
    """Events in their order, then the close."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._waiting = 0
        self._closing: Closing | None = None
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._put_count = self._handled_count = 0
        self._step = asyncio.Event()
        self._taken = False

    def put(self, payload: bytes) -> None:
        """Add an event. No-op once the queue is closed."""
        if self._closing is not None:
            return
        self._frames.append(payload)
        self._put_count += 1
        self._waiting += len(payload)
        if self._waiting > AUDIO_BYTES:
            self._room.clear()
        if self._waiting > MAX_QUEUED_BYTES:
            self.close(_FLOODED)
        self._more.set()

    async def put_when_room(self, payload: bytes) -> None:
        """Add an event once there is room for audio."""
        await self._room.wait()
        self.put(payload)

    async def get(self) -> bytes | Closing:
        """Wait for the next event; asking for it says that the one before was handled."""
        if self._taken:
            self._taken = False
            self._handled_count += 1
            self._step.set()
        while not self._frames:
            if self._closing is not None:
                return self._closing
            self._more.clear()
            await self._more.wait()
        payload = self._frames.popleft()
        self._waiting -= len(payload)
        if self._waiting <= AUDIO_BYTES:
            self._room.set()
        self._taken = True
        return payload

    async def wait_until_handled(self) -> None:
        """Wait until all events so far were handled, or the queue is closed."""
        mark = self._put_count
        while self._handled_count < mark and self._closing is None:
            self._step.clear()
            await self._step.wait()

    def close(self, closing: Closing) -> None:
        """Close the queue. Queued events come before the close, and are dropped where the client did not read."""
        if self._closing is not None:
            return
        self._closing = closing
        if closing is _FLOODED:
            self._frames.clear()
            self._waiting = 0
        self._room.set()
        self._more.set()
        self._step.set()
