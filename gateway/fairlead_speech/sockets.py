"""WebSockets of a speech session to client and provider. They limit the size of messages, and measure how long a peer
has not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

import aiohttp
import msgspec
from aiohttp import WSMsgType, web

MAX_MESSAGE: Final = 16 << 20
"""Maximum size of a message in either direction. Providers accept 15 MiB of audio in one message."""
CLIENT_PING_SECONDS: Final = 20.0
"""Interval of pings to clients. Proxies in front of the gateway close connections that are silent for a minute."""
PROVIDER_PING_SECONDS: Final = 120.0
"""Interval of pings to providers. A provider has half of the interval to answer; Gemini's servers take up to half a
minute.
"""
CLOSE_SECONDS: Final = 2.0
"""Seconds that a peer has to answer a close frame."""
GOING_AWAY, UNSUPPORTED, BAD_ARGUMENT, POLICY_VIOLATION, TOO_LARGE = 1001, 1003, 1007, 1008, 1009
INTERNAL_ERROR, TRY_AGAIN_LATER = 1011, 1013
"""Close codes (RFC 6455 section 7.4.1, and IANA's registry)."""
SILENT: Final = "the peer of the WebSocket did not answer a ping"
"""Close reason of a WebSocket whose peer did not answer a ping."""
_UNSENDABLE: Final = frozenset({1004, 1005, 1006, 1015})
_MAX_REASON: Final = 120
"""Maximum number of bytes of a close reason. A close frame has room for 123 (RFC 6455 section 5.5)."""
Socket: TypeAlias = "aiohttp.ClientWebSocketResponse[bool] | web.WebSocketResponse[bool]"


class Closing(msgspec.Struct, frozen=True):
    """Close code and reason with which the client's or the provider's side of a session ended."""

    code: int
    reason: str = ""
    clean: bool = True
    """Whether the side sent a close frame, instead of only closing the connection."""

    def for_other_side(self) -> Closing:
        """Close frame for the other side. Codes that RFC 6455 forbids to send become 1011."""
        code = self.code if 1000 <= self.code < 5000 and self.code not in _UNSENDABLE else INTERNAL_ERROR
        return Closing(code, self.reason)


class SessionSide(Protocol):
    """Interface of one side of a session: the connection to the client or to the provider."""

    binary: bool
    """Whether messages are sent as binary messages instead of text messages. Gemini's servers send even JSON as binary
    messages."""

    @property
    def received_binary(self) -> bool:
        """Whether the last received message was binary."""
        ...

    @property
    def stalled_seconds(self) -> float:
        """Seconds for which the peer has not read a message that was sent; 0 if all messages were read."""
        ...

    async def receive(self) -> bytes | Closing:
        """Wait for the next message, or for the close of this side."""
        ...

    async def send(self, payload: bytes) -> None:
        """Send a message, and wait while buffers are full. Messages to a closed side are dropped."""
        ...

    async def close(self, closing: Closing) -> None:
        """Close this side. The connection to a peer that does not answer is aborted."""
        ...


class SessionSocket:
    """Side of a session, client or provider, over a WebSocket."""

    def __init__(self, socket: Socket, transport: asyncio.Transport | None, clock: Callable[[], float]) -> None:
        """`transport`: transport of the WebSocket; None if its connection is closed already. `clock`: monotonic clock
        in seconds.
        """
        self._socket = socket
        self._transport = transport
        self._clock = clock
        self._senders = 0
        """Number of `send` calls in progress."""
        self._stalled_since = 0.0
        """Time since which no `send` call in progress has finished, in seconds of the clock."""
        self.closed = False
        self.binary = False
        self.received_binary = False

    @property
    def stalled_seconds(self) -> float:
        """Seconds for which the peer has not read a message that was sent; 0 if all messages were read."""
        return self._clock() - self._stalled_since if self._senders else 0.0

    async def receive(self) -> bytes | Closing:
        """Wait for the next message, or for the close of this side."""
        message = await self._socket.receive()
        if message.type is WSMsgType.TEXT or message.type is WSMsgType.BINARY:
            self.received_binary = message.type is WSMsgType.BINARY
            data: bytes = message.data
            return data
        return self._closing_of(message)

    async def send(self, payload: bytes) -> None:
        """Send a message, and wait while buffers are full. Messages to a closed side are dropped."""
        if self.closed:
            return
        if not self._senders:
            self._stalled_since = self._clock()
        self._senders += 1
        try:
            await self._socket.send_frame(payload, WSMsgType.BINARY if self.binary else WSMsgType.TEXT)
        except (aiohttp.ClientError, ConnectionError, RuntimeError):
            self.closed = True  # `receive` returns the reason
        finally:
            self._senders -= 1
            self._stalled_since = self._clock()

    async def close(self, closing: Closing) -> None:
        """Close this side. The connection to a peer that does not answer is aborted."""
        self.closed = True
        reason = closing.reason.encode()[:_MAX_REASON].decode(errors="ignore").encode()
        try:
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                await self._socket.close(code=closing.code, message=reason)
        except (TimeoutError, aiohttp.ClientError, ConnectionError, RuntimeError):
            if self._transport is not None:
                self._transport.abort()  # `close` would wait for the peer to read

    def _closing_of(self, message: Any) -> Closing:
        self.closed = True
        if message.type is WSMsgType.CLOSE:
            return Closing(message.data, message.extra or "")
        code = self._socket.close_code
        if message.type is WSMsgType.ERROR and isinstance(message.data, aiohttp.ServerTimeoutError):
            return Closing(INTERNAL_ERROR, SILENT, clean=False)
        if message.type is WSMsgType.ERROR and code is not None and code not in _UNSENDABLE:
            return Closing(code, "a message was too large or violated the WebSocket protocol", clean=False)
        return Closing(1006, clean=False)
