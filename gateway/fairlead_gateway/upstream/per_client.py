"""A server with `session: PerClient`: every client session has a session with it, or a process, of its own.

What one client does in its session no other sees; it ends with the client's session, after a while without a call, or
when others need the room. A request that belongs to no session (2026-07-28 has none, nor has REST) is alone in one that
ends with it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Raw

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.upstream_request import RelaySink, ResponseSink, UpstreamRequest
from fairlead_gateway.sending import ANSWERED
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import ConnectFailed, McpError, PoolFull
from fairlead_mcp.idle import IdleTimes
from fairlead_mcp.messages import ResultMembers

MAX_SESSIONS: Final = 100
IDLE_SECONDS: Final = 300.0
CLOSE_SECONDS: Final = 5.0
"""Time that requests in progress get when their session ends."""


class _Session:
    """One client's upstream. `client` is its session id; None for a request that is alone in it."""

    __slots__ = ("busy", "client", "ended", "upstream")

    def __init__(self, upstream: Upstream, client: bytes | None) -> None:
        self.upstream = upstream
        self.client = client
        self.busy = 0
        self.ended = False
        """Whether it is to be closed when nothing is in progress in it."""


class PerClientUpstream(Upstream):
    """`make` makes an upstream of its own for one client, by its normalized capabilities; `most` bounds them, `idle` is
    in seconds.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[bytes], Upstream],
        *,
        modern: bool,
        most: int = MAX_SESSIONS,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self.name = name
        self._modern = modern
        self._make = make
        self._most = most
        self._idle: IdleTimes[_Session] = IdleTimes(idle, self._expired)
        self._count = itertools.count(1).__next__
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        """By client session, the one used last at the end."""
        self._alone = 0
        """Sessions of requests that have none."""
        self._closing = TaskSet()
        self._closed = False

    @property
    def modern(self) -> bool:
        return self._modern

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    @property
    def sessions(self) -> int:
        return len(self._sessions) + self._alone

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        """Under an id of the client's own upstream, for that counts those of its handshakes too."""
        client = request.client
        named = request.session if client is None else client.session
        if client is not None and client.passing:
            named = None
        try:
            session = self._entered(named, b"{}" if client is None else client.features)
        except McpError as error:
            sink.failed(error)
            return ANSWERED
        if named is not None and client is None and not self._modern:
            # one session with the server for all requests of the client: they have to look alike there
            client = ClientPeer(named, b"{}")
        call = _Call(self, session, sink)
        call.began(session.upstream.send(request.in_session(session.upstream.next_id(), client), call))
        return call

    def end_session(self, session: bytes) -> None:
        found = self._sessions.pop(session, None)
        if found is not None:
            self._retire(found)

    def gauges(self) -> Gauges:
        busy = sum(session.busy > 0 for session in self._sessions.values()) + self._alone
        some = next(iter(list(self._sessions.values())), None)  # all see the same pods
        own = Gauges() if some is None else some.upstream.gauges()
        return Gauges(busy, self.sessions - busy, 0, own.pods_serving, own.pods_left)

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        self._closed = True
        for session in list(self._sessions):
            self.end_session(session)
        self._idle.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def left(self, session: _Session) -> None:
        """A request in a session is over."""
        session.busy -= 1
        if session.client is None:
            self._alone -= 1
            self._retire(session)
        elif session.busy == 0 and not session.ended:
            self._idle.mark_idle(session)

    # Inside

    def _expired(self, session: _Session) -> None:
        if session.client is not None:
            self.end_session(session.client)

    def _entered(self, client: bytes | None, features: bytes) -> _Session:
        """Raises PoolFull, and ConnectFailed once it is closed."""
        session = None if client is None else self._sessions.get(client)
        if session is None:
            self._make_room()
            session = _Session(self._make(features), client)
            if client is None:
                self._alone += 1
            else:
                self._sessions[client] = session
        if client is not None:
            self._sessions.move_to_end(client)
        self._idle.mark_used(session)
        session.busy += 1
        return session

    def _make_room(self) -> None:
        if self._closed:
            raise ConnectFailed(f"{self.name} is not called in this way any more", reason="Closed")
        if self.sessions < self._most:
            return
        idle = next((client for client, session in self._sessions.items() if session.busy == 0), None)
        if idle is None:
            raise PoolFull(f"{self._most} clients have a session with {self.name}, and all of them are busy")
        self.end_session(idle)

    def _retire(self, session: _Session) -> None:
        session.ended = True
        self._idle.mark_used(session)
        grace = CLOSE_SECONDS if session.busy else 0.0
        self._closing.start(session.upstream.aclose(grace), f"end session {self.name}")


class _Call(RelaySink):
    """A request in progress in one session."""

    def __init__(self, upstream: PerClientUpstream, session: _Session, sink: ResponseSink) -> None:
        super().__init__(sink)
        self._upstream = upstream
        self._session = session
        self._over = False
        self._pending: Pending = ANSWERED

    def began(self, pending: Pending) -> None:
        """Take what cancels the request, unless that is answered already."""
        if not self._over:
            self._pending = pending

    def answered(self, result: Raw, members: ResultMembers | None = None) -> None:
        self._end()
        self.sink.answered(result, members)

    def failed(self, error: Exception) -> None:
        self._end()
        self.sink.failed(error)

    def cancel(self) -> None:
        if not self._over:
            self._pending.cancel()
            self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._pending = ANSWERED  # it knows us: a cycle would keep the whole call for the garbage collector
            self._upstream.left(self._session)
