"""Message streams over TCP to a server on stdio in another pod: one message per line, after a line with a token and,
for a server whose processes have the keys of users, a line with a key.

The listener (the gate) starts one process of the server per connection, if the first line has the right token; with a
wrong token it closes the connection. The socket is the process's standard input and output, so that process and
connection end together. If no process can be started, the gate sends one line with the reason.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from typing import Final, cast

from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, PoolFull, Timeout, TooLarge
from fairlead_mcp.http.dial import Address, Dialer, Resolve, resolve_by_dns
from fairlead_mcp.http.peers import CHECK_SECONDS, PeerCheck
from fairlead_mcp.printed import printable
from fairlead_mcp.stdio import MAX_BACKLOG, LineBuffer
from fairlead_mcp.streams import MessageStream, StreamConnection, StreamOpener
from fairlead_mcp.waiting import wait_until_set

DIAL_SECONDS: Final = 5.0
END_SECONDS: Final = 5.0
"""Longest time in which a process may end after its input."""
FULL: Final = b"fairlead-gate: full "
"""Beginning of the gate's line when the limit of processes is reached; the limit follows."""
MISSING: Final = b"fairlead-gate: missing "
"""Beginning of the gate's line when the image does not have the program as an executable file; the program's name
follows.
"""
CHANGED: Final = b"fairlead-gate: changed"
"""The gate's line when a key is for another program."""
_REFUSALS: Final = (FULL, MISSING, CHANGED)
_PROGRAM_CHARS: Final = 200
_KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
"""TCP keep-alive options, by which a connection to a lost node ends after 35 s."""


class TcpOpener(StreamOpener):
    """Opens a stream over TCP. If there are several addresses (one per pod), they are tried in the random order of
    `shuffle`.

    `key` is for a gate that reads keys: the digest of a program, a space, and the key of the user whose process it is
    (one printable word); empty for a process without a user. None: the gate reads no key. `resolve_recent` is for
    checks of open streams, whose answers may be shared.
    """

    starts_process = True

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        *,
        key: str | None = None,
        resolve: Resolve | None = None,
        resolve_recent: Resolve | None = None,
        timeout: float = DIAL_SECONDS,
        check_seconds: float = CHECK_SECONDS,
        shuffle: Callable[[list[Address]], None] = random.shuffle,
    ) -> None:
        look_up = resolve or resolve_by_dns

        async def resolve_shuffled(host: str, port: int) -> list[Address]:
            addresses = [*await look_up(host, port)]
            shuffle(addresses)
            return addresses

        self._peers = PeerCheck(host, port, resolve_recent or look_up, check_seconds)
        self._dialer = Dialer(host, port, None, None, resolve_shuffled, timeout)
        self._greeting = b"".join(line.encode() + b"\n" for line in (token, key) if line is not None)

    async def open(self, connection: StreamConnection) -> LineProtocol:
        """Connect and send the token. Raises ConnectFailed."""
        return await self._dialer.connect(lambda: LineProtocol(connection, self._greeting))

    @property
    def check_seconds(self) -> float:
        """Implements StreamOpener."""
        return self._peers.seconds

    async def is_current(self, stream: MessageStream) -> bool:
        """Implements StreamOpener."""
        return not isinstance(stream, LineProtocol) or await self._peers.is_current(stream.peer)

    async def is_ending(self, stream: MessageStream) -> bool:
        """Implements StreamOpener: true once the gate has stopped listening."""
        return isinstance(stream, LineProtocol) and await self._peers.is_ending(stream.peer)

    def explain(self, error: McpError, seconds: float) -> McpError:
        """Implements StreamOpener."""
        if not isinstance(error, Timeout):
            return error
        message = f"the server's process did not answer the handshake within {seconds:g} s of its start"
        failure = ConnectFailed(message, reason="StartTimeout")
        failure.__cause__ = error
        return failure


class LineProtocol(asyncio.Protocol):
    """TCP connection as a `MessageStream`."""

    def __init__(self, connection: StreamConnection, greeting: bytes) -> None:
        self._connection = connection
        self._greeting = greeting
        self._buffer = LineBuffer()
        self._transport: asyncio.Transport | None = None
        self._received_data = False
        self._has_answered = False
        self._is_over = False
        self._is_closed = asyncio.Event()
        self.peer: Address | None = None
        """Address of the other end; None before the connection."""

    def write(self, line: bytes) -> None:
        """Send a line. Raises PoolFull when the server does not read."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > MAX_BACKLOG:
            raise PoolFull("the server's process does not read its input")
        self._transport.write(line + b"\n")

    async def aclose(self) -> None:
        """End the process's input and thereby the process; wait up to `END_SECONDS` for its end, because until then it
        counts against the limit of processes. Then close the connection.
        """
        self._is_over = True
        if self._transport is None:
            return
        try:
            if not self._transport.get_write_buffer_size() and not self._transport.is_closing():
                self._transport.write_eof()
                await wait_until_set(self._is_closed, END_SECONDS)
        finally:
            self._transport.abort()
        await self._is_closed.wait()

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio.Transport
        self._transport = cast("asyncio.Transport", transport)
        connected_socket = cast("socket.socket", transport.get_extra_info("socket"))
        host, port = connected_socket.getpeername()[:2]
        self.peer = (str(host), int(port))
        connected_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            connected_socket.setsockopt(socket.IPPROTO_TCP, option, value)
        self._transport.write(self._greeting)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._received_data = True
        try:
            for line in self._buffer.feed(data):
                if not self._has_answered and line.startswith(_REFUSALS):
                    raise _refusal(line)
                self._has_answered = True
                self._connection.on_line(line)
        except (TooLarge, ConnectFailed) as error:
            self._report_end(error)
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed.set()
        if self._received_data:
            error = ConnectionLost("the server's process ended", sent=True, reason="ProcessExited")
        else:
            message = "the server's process ended before it answered: the log of its pod says why"
            error = ConnectionLost(message, sent=True, reason="StartFailed")
        error.__cause__ = exc
        self._report_end(error)

    def _report_end(self, error: McpError) -> None:
        if not self._is_over:
            self._is_over = True
            self._connection.on_end(error)


def _refusal(line: bytes) -> ConnectFailed:
    if line.startswith(MISSING):
        program = printable(line.removeprefix(MISSING))[:_PROGRAM_CHARS]
        return ConnectFailed(f"the server's image has no executable program {program}", reason="CommandNotFound")
    if line.startswith(CHANGED):
        text = "the server's program has changed since the caller's key was entered: try again in a moment"
        return ConnectFailed(text, reason="StartFailed")
    limit = line.removeprefix(FULL).decode("ascii", "replace")[:9]
    return ConnectFailed(
        f"{limit} processes of the server run in its pod already, the limit of spec.limits.processes: raise that limit "
        "(and the memory of the pod), or spec.replicas",
        reason="TooManyProcesses",
    )
