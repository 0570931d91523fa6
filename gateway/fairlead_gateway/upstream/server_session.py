"""Session with a legacy server over HTTP, and the head of its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Raw

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.upstream_request import ResponseSink
from fairlead_gateway.upstream.log_levels import LogLevels
from fairlead_gateway.upstream.session_authorization import SessionAuthorization
from fairlead_mcp import eras
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Address

SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
PodAddress: TypeAlias = Address | None
"""Address of the pod that holds a shared session; None for a session that is not assigned to a pod."""


CompleteElicitation: TypeAlias = Callable[[bytes, Raw], None]
"""Sends the params of `notifications/elicitation/complete` to the client of a session with the gateway."""


def forward_nothing(session: bytes, params: Raw) -> None:
    """Do nothing: for upstreams whose clients have no streams."""


# a plain tuple, created for each call: creating a NamedTuple takes ten times as long
PersonKey: TypeAlias = tuple[bytes, PodAddress]
"""Key of a session that all clients of one outbound user share: the user, and the session's pod."""
SessionKey: TypeAlias = ClientPeer | PersonKey | PodAddress
"""Key of a session. For a client's own session, the client (its session id belongs to one principal); for a session of
one user's clients, a `PersonKey`; for a session of all clients, the address of its pod.
"""


def shared_key(person: bytes, pod: PodAddress) -> SessionKey:
    """Key of the session that the clients of a user share; if `person` is empty, the clients of all users."""
    return (person, pod) if person else pod


def pod_of(key: SessionKey) -> PodAddress:
    """Pod of a shared session; None if it is assigned to no pod, and for a client's own session."""
    if key is None or isinstance(key, ClientPeer):
        return None
    return key[1] if isinstance(key[0], bytes) else key


class ServerSession:
    """Session with a legacy server. Stateless servers assign no session id."""

    __slots__ = (
        "active_sinks",
        "authorization",
        "client",
        "closed",
        "has_id",
        "has_owner",
        "head",
        "key",
        "level_lock",
        "levels",
        "person",
        "pod",
        "requests",
        "stream",
        "subscriber",
        "subscriptions",
    )

    def __init__(
        self,
        head: bytes,
        version: str,
        ident: bytes | None,
        client: ClientPeer | None,
        person: bytes = b"",
        authorization: SessionAuthorization | None = None,
    ) -> None:
        self.has_id = ident is not None
        session_line = header(eras.H_SESSION, ident) if ident is not None else b""
        self.head = head + header(eras.H_VERSION, version.encode()) + session_line
        """Head of the session's requests. If access tokens are per call, each request adds its own."""
        self.authorization = authorization or SessionAuthorization()
        """`Authorization` header lines of the gateway's own messages in the session."""
        self.client = client
        """Client that owns the session; None for a shared session."""
        self.person = person
        """Outbound user whose clients share the session; empty for a session of all users."""
        self.has_owner = client is not None or person != b""
        """Whether the session belongs to one client or user, and ends when it is idle."""
        self.key: SessionKey = client if client is not None else shared_key(person, None)
        """Key of the session in `ServerSessions.open`."""
        self.pod: Address | None = None
        """Address of the pod that holds the session; None for any pod."""
        self.active_sinks: list[ResponseSink] = []
        """Sinks of the requests in progress; only used in a client's own session."""
        self.requests = 0
        """Number of requests in progress; only used in a session that a user's clients share."""
        self.levels: LogLevels | None = None
        """Log levels; None if the server has no log messages."""
        self.level_lock = asyncio.Lock()
        """Held while a `logging/setLevel` is in progress."""
        self.stream: asyncio.Task[None] | None = None
        """Reader of the session's GET stream."""
        self.subscriptions = 0
        self.subscriber: ResponseSink | None = None
        """Sink for resource updates. A session with a subscriber does not time out when idle."""
        self.closed = False

    def is_lost(self, answer: Answer) -> bool:
        """Whether an answer says that the server lost the session: 404 as in MCP, or 400 as in the TypeScript SDK."""
        if answer.status == 404:
            return self.has_id
        return answer.status == 400 and b"session" in answer.body.lower()

    def enter(self, sink: ResponseSink) -> None:
        """Record the start of a request in a session with an owner. Call `leave` once when the request ends."""
        if self.client is None:
            self.requests += 1
        else:
            self.active_sinks.append(sink)

    def leave(self, sink: ResponseSink) -> bool:
        """Record the end of a request. True if the session is now idle: without requests and subscriptions."""
        if self.client is None:
            self.requests -= 1
            return self.requests == 0 and not self.closed  # only clients' own sessions have subscriptions
        self.active_sinks = [other for other in self.active_sinks if other is not sink]
        return not self.active_sinks and self.subscriber is None and not self.closed

    def subscribe(self, method: str, sink: ResponseSink) -> None:
        """Record `resources/subscribe` and `resources/unsubscribe`; no-op for other methods."""
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
    """Turn the head of a POST into the head of a GET."""
    return head.replace(b"POST ", b"GET ", 1)


def header(name: bytes, value: bytes) -> bytes:
    """One header line."""
    return b"%b: %b\r\n" % (name, value)
