"""A server with `session: PerClient`: every client session has a session with it, or a process, of its own.

Made by `upstream.registry` around the upstreams that it makes on demand, called like any other. What one client does
in its session no other sees; it ends with the client's session, after a while without a call, or when others need the
room. A request that belongs to no session (2026-07-28 has none, nor has REST) is alone in one that ends with it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, structs

from fairlead_gateway.upstream.base import Gauges, Upstream
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_gateway.upstream.order import Order
from fairlead_mcp.errors import ConnectFailed, PoolFull

log = logging.getLogger(__name__)

METHOD: Final = "tools/call"
MAX_SESSIONS: Final = 100
IDLE_SECONDS: Final = 300.0
CLOSE_SECONDS: Final = 5.0
"""What is in progress in a session gets so long when it ends."""


class _Session:
    """One client's upstream."""

    __slots__ = ("busy", "ended", "expiry", "upstream")

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.busy = 0
        self.ended = False
        """It is to be closed when nothing is in progress in it."""
        self.expiry: asyncio.TimerHandle | None = None


class PerClientUpstream:
    """See the module. `make` makes an upstream of its own for one client, by what that offers (normalized
    capabilities); `most` bounds them, `idle` is in seconds.
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
        self.modern = modern
        self._make = make
        self._most = most
        self._idle = idle
        self._count = itertools.count(1).__next__
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        """By client session, the one used last at the end."""
        self._alone = 0
        """Sessions of requests that have none."""
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    @property
    def sessions(self) -> int:
        return len(self._sessions) + self._alone

    async def call(self, order: Order) -> Raw:
        named = msgspec.json.decode(order.params, type=_Named).name
        inquiry = Inquiry(
            order.id, METHOD, order.params, order.deadline, order.max_bytes, named, notify=order.notify,
            session=order.session, counter=order.counter,
        )  # fmt: skip
        return await self.ask(inquiry)

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        return self.modern

    async def ask(self, inquiry: Inquiry) -> Raw:
        client = inquiry.client
        session = inquiry.session if client is None else client.session
        if session is None or (client is not None and client.passing):
            return await self._alone_in_one(inquiry)
        if client is None and not self.modern:
            # one session with the server whatever is asked: what asks for it has to look the same
            client = Counterpart(session, b"{}")
        return await self._within(session, structs.replace(inquiry, client=client))

    def end(self, session: bytes) -> None:
        """A client's session has ended; no-op where it has none here."""
        found = self._sessions.pop(session, None)
        if found is not None:
            self._retire(found)

    def gauges(self) -> Gauges:
        busy = sum(session.busy > 0 for session in self._sessions.values()) + self._alone
        return Gauges(busy=busy, idle=self.sessions - busy)

    async def aclose(self, grace: float) -> None:
        self._closed = True
        for session in list(self._sessions):
            self.end(session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    # Inside

    async def _within(self, client: bytes, inquiry: Inquiry) -> Raw:
        session = self._sessions.get(client)
        if session is None:
            self._make_room()
            session = self._sessions[client] = _Session(self._make(_offered(inquiry)))
        self._sessions.move_to_end(client)
        if session.expiry is not None:
            session.expiry.cancel()
            session.expiry = None
        session.busy += 1
        try:
            return await _asked(session.upstream, inquiry)
        finally:
            session.busy -= 1
            if session.busy == 0 and not session.ended:
                session.expiry = asyncio.get_running_loop().call_later(self._idle, self.end, client)

    async def _alone_in_one(self, inquiry: Inquiry) -> Raw:
        self._make_room()
        session = _Session(self._make(_offered(inquiry)))
        self._alone += 1
        try:
            return await _asked(session.upstream, inquiry)
        finally:
            self._alone -= 1
            self._retire(session)

    def _make_room(self) -> None:
        if self._closed:
            raise ConnectFailed(f"{self.name} is not called in this way any more", reason="Closed")
        if self.sessions < self._most:
            return
        idle = next((client for client, session in self._sessions.items() if session.busy == 0), None)
        if idle is None:
            raise PoolFull(f"{self._most} clients have a session with {self.name}, and all of them are busy")
        self.end(idle)

    def _retire(self, session: _Session) -> None:
        session.ended = True
        if session.expiry is not None:
            session.expiry.cancel()
        grace = CLOSE_SECONDS if session.busy else 0.0
        task = asyncio.get_running_loop().create_task(session.upstream.aclose(grace), name=f"end session {self.name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _offered(inquiry: Inquiry) -> bytes:
    return b"{}" if inquiry.client is None else inquiry.client.features


async def _asked(upstream: Upstream, inquiry: Inquiry) -> Raw:
    """With an id of that upstream's own, for it counts those of its handshakes too."""
    return await upstream.ask(structs.replace(inquiry, id=upstream.next_id()))


class _Named(msgspec.Struct):
    name: str
