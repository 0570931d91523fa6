"""A request to a server that may take its time: with notices on the way, questions back, or a pod that it is bound to.

Pure declarations, beside those of `upstream.base` for plain calls. Called by `calls.forward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp.http.exchange import Counter
from fairlead_mcp.messages import Message

AnswerServer: TypeAlias = Callable[[bytes], None]
"""Sends a whole JSON-RPC response to the server. Never blocks."""
OnRequest: TypeAlias = Callable[[Message, AnswerServer], None]
"""Called with each request of a server to its client; answers at once or later. Must not raise or block."""


class Listener(Protocol):
    """Whoever is told what a server says before its answer."""

    @property
    def congested(self) -> bool:
        """Whether it cannot follow: a server that can be held up should be."""
        ...

    def when_clear(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called, once, when it can again, or is gone."""
        ...


class Counterpart(msgspec.Struct, frozen=True):
    """A legacy client that offers something to servers."""

    session: bytes
    """Its session id here."""
    features: bytes
    """Normalized capabilities, raw JSON."""
    passing: bool = False
    """It stands for one request after the other, of whoever comes: what is kept for a client is not for it."""


class Inquiry(msgspec.Struct, frozen=True):
    """One request as the server shall get it."""

    id: bytes
    """Raw JSON, from the upstream's `next_id`."""
    method: str
    params: bytes
    """Raw JSON in the era that `era` gave, under the server's own names."""
    deadline: float
    """Seconds of the monotonic clock."""
    max_bytes: int
    named: str | None = None
    """What `Mcp-Name` repeats, where the method has it."""
    headers: bytes = b""
    """More header lines: `Mcp-Param-*`."""
    notify: Callable[[Message], None] | None = None
    client: Counterpart | None = None
    """Whom the server may ask; the session is one in which that was declared."""
    on_request: OnRequest | None = None
    pin: bytes | None = None
    """From `upstream.affinity`: the address that has to get it."""
    on_pause: Callable[[], None] | None = None
    """Told when a legacy server ends its stream and wants to be asked for the rest."""
    session: bytes | None = None
    """The session of the client, where it has one."""
    level: str | None = None
    """Of the log messages that the client asked for, one of `levels.LEVELS`; a modern request has it in `params`."""
    listener: Listener | None = None
    """Whom `notify` tells."""
    counter: Counter | None = None
    """Counts a large answer while it arrives."""
    gated: bool = False
    """Calls a tool that the server knows only in a session which declared the client's capabilities."""


class Inquirable(Protocol):
    """The part of an upstream that takes inquiries."""

    def next_id(self) -> bytes:
        """A request id, raw JSON, that this upstream has never seen."""
        ...

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        """Whether an inquiry for such a client is made in the modern era. Raises McpError."""
        ...

    async def ask(self, inquiry: Inquiry) -> Raw:
        """The raw result, in that era. Raises McpError. Cancelling the caller cancels the request at the server."""
        ...
