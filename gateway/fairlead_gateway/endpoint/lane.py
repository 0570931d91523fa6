"""One connection, on the way of most of its requests: whole, with the head of the one before, answered one at a time.

The protocol that the loop knows. Such a request is served at once; everything else is for the connection's `Rest`,
which is `endpoint.server` with its parser. What both have to know of the connection stands here. It knows no uvicorn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from fairlead_gateway.calls.exchange import asker, in_scope
from fairlead_gateway.endpoint.exchange import Exchange, Wire
from fairlead_gateway.endpoint.familiar import Familiar
from fairlead_gateway.endpoint.front import Front
from fairlead_gateway.endpoint.metered import Metered
from fairlead_gateway.limits.buffers import UNREAD

SLICE: Final = 16 << 10
"""Bytes fed to the parser at once, so that a limit is exceeded by no more than this."""


class Flow(Protocol):
    """uvicorn's account of what was paused."""

    read_paused: bool
    write_paused: bool


class Rest(Protocol):
    """What a lane hands everything else to."""

    client: tuple[str, int] | None
    flow: Any

    def connection_made(self, transport: asyncio.Transport) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def eof_received(self) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def read(self, data: bytes) -> None:
        """Bytes that are no familiar request."""
        ...

    def advance(self) -> None:
        """Go on with what had to wait for the answer that is out now."""
        ...


class Lane(Wire):
    """See the module. A request is *in its head or body* (`in_message`), *served* (`current`) or in the pipeline."""

    __slots__ = ("_agent", "_clock", "_front", "_held_up", "_limit", "_metered", "_rest", "_unread", "current", "deaf",
                 "familiar", "flow", "in_message", "pipeline", "since")  # fmt: skip

    flow: Flow

    def __init__(self, front: Front, rest: Rest, pipeline: deque[Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(front.proxies, front.buffers, ending=front.retiring)
        self._front = front
        self._rest = rest
        self._clock = loop.time
        self._limit = front.bounds.body
        self.pipeline = pipeline
        """Of `rest`: requests that wait for the answers to those before them, as cycle or exchange, newest first."""
        self.current: Any = None
        """What is being answered: an exchange, or a cycle of uvicorn's."""
        self._held_up: list[Callable[[], None]] = []
        self._metered: Metered | None = None
        self._agent = ""
        self._unread = 0
        """Bytes that are counted as those of `_agent`."""
        self.in_message = False
        self.deaf = False
        """Whether nothing more of it is read."""
        self.familiar: Familiar | None = None
        self.since = loop.time()
        """When it began what it does now, in seconds of the loop's clock."""

    @property
    def congested(self) -> bool:
        return self.flow.write_paused

    @property
    def cancels_abandoned(self) -> bool:
        return self._front.threads.cancels_abandoned

    def when_clear(self, go_on: Callable[[], None]) -> None:
        self._held_up.append(go_on)

    def answered(self) -> None:
        self.current = None
        self.since = self._clock()
        if self.ending and not self.transport.is_closing():
            self.transport.close()
        if self.pipeline or self.deaf or self.flow.read_paused:
            self._rest.advance()

    # Called by the loop

    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(UNREAD)
        if transport.get_extra_info("sslcontext") is not None:
            transport = self._metered = Metered(transport, self._pause, self._resume, UNREAD)
        self.transport = transport
        self._rest.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        familiar = self.familiar
        if familiar is not None and self._at_leisure() and len(data) <= SLICE:
            exchange = familiar.again(data, self, self._limit)
            if exchange is not None:
                self.current = exchange
                self._front.serve(exchange)
                return
        self._rest.read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        current, self.current = self.current, None
        self._rest.connection_lost(exc)
        self._count(0)
        if isinstance(current, Exchange):
            current.lost()
        self._let_go_on()

    def eof_received(self) -> None:
        self._rest.eof_received()

    def pause_writing(self) -> None:
        if self._metered is None:
            self._pause()
        else:
            self._metered.clogged()

    def resume_writing(self) -> None:
        if self._metered is None:
            self._resume()
        else:
            self._metered.cleared()

    def _pause(self) -> None:
        self._rest.pause_writing()
        current = self.current
        if isinstance(current, Exchange):
            self._agent = asker(current)
        else:
            self._agent = in_scope(getattr(current, "scope", {}), self.client)
        self.count_unread()

    def count_unread(self) -> None:
        self._count(self.transport.get_write_buffer_size())

    def _count(self, unread: int) -> None:
        more = unread - self._unread
        if more:
            self._unread = unread
            self.buffers.unread(self._agent, more)

    def _resume(self) -> None:
        self._count(0)
        self._rest.resume_writing()
        self._let_go_on()
        self._rest.advance()

    def _let_go_on(self) -> None:
        """Servers that were held up because the client did not read."""
        held_up, self._held_up = self._held_up, []
        for go_on in held_up:
            go_on()

    def _at_leisure(self) -> bool:
        """Whether the next byte begins a request that can be served at once."""
        return (
            self.current is None
            and not self.in_message
            and not self.deaf
            and not self.pipeline
            and not self.flow.write_paused
        )
