"""A session with a legacy server over HTTP, and the heads that its requests begin with."""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.upstream_request import ResponseSink
from fairlead_gateway.upstream.log_levels import LogLevels
from fairlead_mcp import eras
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Address

SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
SessionKey: TypeAlias = ClientPeer | Address | None
"""Client whose own a session is; for one that others share its pod, or None where it is the only one."""


class ServerSession:
    """A session with a legacy server; servers without state give no id."""

    __slots__ = (
        "client",
        "closed",
        "head",
        "key",
        "levels",
        "named",
        "pod",
        "setting_level",
        "stream",
        "subscriber",
        "subscriptions",
        "working",
    )

    def __init__(self, head: bytes, version: str, ident: bytes | None, client: ClientPeer | None) -> None:
        self.named = ident is not None
        named = header(eras.H_SESSION, ident) if ident is not None else b""
        self.head = head + header(eras.H_VERSION, version.encode()) + named
        self.client = client
        """Client whose own it is; None for the session that all others share."""
        self.key: SessionKey = client
        """Key of it among the sessions with the server."""
        self.pod: Address | None = None
        """Address that it lives at; None where any address does."""
        self.working: list[ResponseSink] = []
        """Sinks of the requests in progress, of a client's own session."""
        self.levels: LogLevels | None = None
        """None where the server has no log messages."""
        self.setting_level = asyncio.Lock()
        self.stream: asyncio.Task[None] | None = None
        """Stream on which the server asks apart from its answers."""
        self.subscriptions = 0
        self.subscriber: ResponseSink | None = None
        """Sink of changed resources; a session with one is kept until others need the room."""
        self.closed = False

    def lost(self, answer: Answer) -> bool:
        """Whether the server knows the session no more: 404 as MCP wants it, or 400 about it as the TypeScript SDK."""
        if answer.status == 404:
            return self.named
        return answer.status == 400 and b"session" in answer.body.lower()

    def enter(self, sink: ResponseSink) -> None:
        self.working.append(sink)

    def leave(self, sink: ResponseSink) -> bool:
        """Whether it is idle now: nothing is in progress in it any more, and nobody waits for changed resources."""
        self.working = [other for other in self.working if other is not sink]
        return not self.working and self.subscriber is None and not self.closed

    def subscribe(self, method: str, sink: ResponseSink) -> None:
        """Note `resources/subscribe` and `resources/unsubscribe`."""
        if method == SUBSCRIBE:
            self.subscriber = sink
            self.subscriptions += 1
        elif method == UNSUBSCRIBE:
            self.subscriptions = max(self.subscriptions - 1, 0)
            if self.subscriptions == 0:
                self.subscriber = None

    def close(self) -> None:
        self.closed = True
        if self.stream is not None:
            self.stream.cancel()


def get_head(head: bytes) -> bytes:
    """The head of a GET with the headers of a POST's."""
    return head.replace(b"POST ", b"GET ", 1)


def header(name: bytes, value: bytes) -> bytes:
    """One header line."""
    return b"%b: %b\r\n" % (name, value)
