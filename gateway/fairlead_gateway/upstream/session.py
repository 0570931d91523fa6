"""Legacy sessions with a server over HTTP, and the heads that their requests begin with. Part of `upstream.http`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_gateway.upstream.inquiry import Inquiry
from fairlead_gateway.upstream.levels import Levels
from fairlead_mcp import eras
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Address
from fairlead_mcp.messages import Message


class Opened:
    """A legacy session; servers without state give no id. As such it is what all plain calls share."""

    __slots__ = ("head", "named")

    def __init__(self, head: bytes, version: str, ident: bytes | None) -> None:
        self.named = ident is not None
        named = header(eras.H_SESSION, ident) if ident is not None else b""
        self.head = head + header(eras.H_VERSION, version.encode()) + named

    def lost(self, answer: Answer) -> bool:
        """404 as MCP wants it, or 400 about the session as the TypeScript SDK does it."""
        if answer.status == 404:
            return self.named
        return answer.status == 400 and b"session" in answer.body.lower()


class Session(Opened):
    """One that is a client's own, or is opened for what all clients of some capabilities ask beside calls."""

    __slots__ = ("expiry", "levels", "pod", "setting_level", "stream", "subscriber", "subscriptions", "working")

    def __init__(self, head: bytes, version: str, ident: bytes | None) -> None:
        super().__init__(head, version, ident)
        self.pod: Address | None = None
        """Where it lives; None where the server has but one address."""
        self.working: list[Inquiry] = []
        self.levels: Levels | None = None
        """None where the server has no log messages."""
        self.setting_level = asyncio.Lock()
        self.stream: asyncio.Task[None] | None = None
        self.subscriptions = 0
        self.subscriber: Callable[[Message], None] | None = None
        """Whom changes of resources are for; such a session is kept until others need the room."""
        self.expiry: asyncio.TimerHandle | None = None

    def enter(self, inquiry: Inquiry) -> None:
        self.working.append(inquiry)
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None

    def leave(self, inquiry: Inquiry) -> None:
        self.working = [other for other in self.working if other is not inquiry]

    def close(self) -> None:
        if self.expiry is not None:
            self.expiry.cancel()
        if self.stream is not None:
            self.stream.cancel()


def get_head(head: bytes) -> bytes:
    """The head of a GET with the headers of a POST's."""
    return head.replace(b"POST ", b"GET ", 1)


def header(name: bytes, value: bytes) -> bytes:
    """One header line."""
    return b"%b: %b\r\n" % (name, value)
