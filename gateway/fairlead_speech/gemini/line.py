"""The provider's side of a Gemini Live session, whose connection is replaced by another one while the session goes on.

What was sent since the newest handle is kept, and sent again over the new connection: a handle stands for what came
before it. What the client sends meanwhile waits in the same place; nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead_speech.sockets import Closing, SessionSide

KEPT_BYTES: Final = 256 << 10
"""Bytes that are kept since the newest handle: five seconds of PCM at 16 kHz, in base64."""


class ProviderLine:
    """Side of a session towards its provider. `close` it."""

    def __init__(self, side: SessionSide, recovers: Callable[[Closing], bool], kept_bytes: int = KEPT_BYTES) -> None:
        """`recovers`: whether another connection is about to take the place of one that was closed; it has begun to
        `replace` it then.
        """
        self._recovers = recovers
        self._side: SessionSide | None = side
        self._kept_bytes = kept_bytes
        self._kept: deque[bytes] = deque()
        self._bytes = 0
        self._up = asyncio.Event()
        self._up.set()
        self._ended: Closing | None = None
        self._received_binary = False
        self.binary = False
        self.whole = True
        """Whether all that was sent since the newest handle is kept."""

    @property
    def up(self) -> bool:
        """Whether a connection carries frames now."""
        return self._up.is_set() and self._ended is None

    @property
    def received_binary(self) -> bool:
        """Whether the last message came as a binary one."""
        return self._received_binary

    @property
    def stalled_seconds(self) -> float:
        """Seconds for which the provider has not read what was sent; 0 while a connection is replaced."""
        return self._side.stalled_seconds if self._side is not None and self.up else 0.0

    async def receive(self) -> bytes | Closing:
        """The next message of the connection that carries the session, or how the last one ended."""
        while True:
            await self._up.wait()
            side = self._side
            if side is None or self._ended is not None:
                return self._ended or Closing(1006, clean=False)
            frame = await side.receive()
            if side is not self._side or not self._up.is_set():
                continue  # what is said over a connection that was given up is said again over the next
            self._received_binary = side.received_binary
            if isinstance(frame, Closing) and self._recovers(frame):
                continue
            return frame

    async def send(self, frame: bytes) -> None:
        """Send a message, and keep it until the next handle. Waits while connections are replaced and no more fits."""
        while not self._up.is_set() and self._bytes + len(frame) > self._kept_bytes and self._kept:
            await self._up.wait()
        self._keep(frame)
        if self._up.is_set() and self._side is not None:
            self._side.binary = self.binary
            await self._side.send(frame)

    async def send_once(self, frame: bytes) -> None:
        """Send a message that no other connection needs. No-op where none is up."""
        if self._up.is_set() and self._side is not None:
            await self._side.send(frame)

    def handed(self) -> None:
        """A handle came: what was sent so far is in it."""
        self._kept.clear()
        self._bytes = 0
        self.whole = True

    def hold(self) -> None:
        """From now on keep what is sent, and drop what comes: the connection is about to be replaced."""
        self._up.clear()

    async def replace(self, connect: Callable[[], Awaitable[SessionSide | Closing]]) -> bool:
        """Close the connection that was held, then connect and send what was kept. Whether that was successful; else
        the line is at its end.
        """
        old, self._side = self._side, None
        try:
            if old is not None:
                await old.close(Closing(1000))
            found = await connect()
            if isinstance(found, Closing) or self._ended is not None:
                await self._fail(found)
                return False
            sent = 0
            while sent < len(self._kept):  # it may grow meanwhile
                await found.send(self._kept[sent])
                sent += 1
            self._side = found
            return True
        finally:
            if self._side is None and self._ended is None:
                self._ended = Closing(1011, "the session could not be gone on with")
            self._up.set()

    async def close(self, closing: Closing) -> None:
        """Close the connection; one that is being made is closed as soon as it is there."""
        side = self._side
        self._ended = self._ended or closing
        self._up.set()
        if side is not None:
            await side.close(closing)

    async def _fail(self, found: SessionSide | Closing) -> None:
        if isinstance(found, Closing):
            self._ended = self._ended or found
        else:
            await found.close(Closing(1000))

    def _keep(self, frame: bytes) -> None:
        self._kept.append(frame)
        self._bytes += len(frame)
        if self._bytes > self._kept_bytes and self._up.is_set():
            self._kept.clear()
            self._bytes = 0
            self.whole = False
