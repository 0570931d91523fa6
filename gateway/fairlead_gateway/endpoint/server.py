"""HTTP/1.1 in: MCP endpoints straight from the parser's callbacks, every other path through the ASGI application.

The one module that knows uvicorn, and the only one that touches its private surface: a subclass of its httptools
protocol, whose minor version is pinned for that reason (a contract test lists what is used). A request for an MCP
target never becomes a scope, a cycle or ASGI events, in whatever form it comes; an `Exchange` takes the place of
uvicorn's cycle in its pipeline, so that requests of both kinds on one connection are answered in order, one at a
time. Why this server and none of the others, and where the CPU of a call goes: PERFORMANCE.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fairlead_gateway.endpoint import framing, replies, targets
from fairlead_gateway.endpoint.asked import Rejection
from fairlead_gateway.endpoint.bounds import CHUNK_BYTES, MAX_FIELDS, MAX_PIPELINED
from fairlead_gateway.endpoint.crowd import NOBODY, Place
from fairlead_gateway.endpoint.exchange import Exchange
from fairlead_gateway.endpoint.framing import Refused
from fairlead_gateway.endpoint.front import Front
from fairlead_gateway.endpoint.inbound import SPELLINGS
from fairlead_gateway.endpoint.lane import SLICE, Lane
from fairlead_gateway.endpoint.portions import MANY, Portions
from fairlead_gateway.policy.tiers import in_tier
from fairlead_mcp import jsonrpc

LINGER_SECONDS: Final = 2.0
"""How long a refused client may go on sending before it is cut off without having read why."""


class McpProtocol(HttpToolsProtocol):
    """One connection. A request is *in its head*, *in its body*, *served* (`_current`) or waiting in the pipeline."""

    __slots__ = ("_advancing", "_begun", "_farewell", "_fields", "_front", "_in_head", "_latest", "_lingering",
                 "_overhead", "_place", "_reading", "_target", "_upgrading", "lane")  # fmt: skip
    # with uvicorn's own attributes a dictionary of its own for each connection would be needed: 1.2 kB

    cycle: Any
    """The request that was read last: a cycle of uvicorn's, or an Exchange in its place."""
    pipeline: deque[Any]

    def __init__(self, front: Front, config: Config, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, state, {}, loop)
        self._front = front
        self._reading: Exchange | None = None
        self._begun = False
        self._target = b""
        self._in_head = False
        self._fields = 0
        self._overhead = 0
        self._upgrading: Exchange | None = None
        self._advancing = False
        self._farewell: bytes | None = None
        self._lingering = False
        self._latest: Exchange | None = None
        self._place: Place = NOBODY
        self.lane = Lane(front, self, self.pipeline, loop)
        """The connection, as the loop and exchanges know it."""

    # Called by the lane

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._portions = Portions(transport, self.loop, self._feed)
        self.flow = FlowControl(self._portions)  # type: ignore[arg-type]  # it switches reading, and nothing else
        self.lane.client, self.lane.flow = self.client, self.flow
        self._place = place = self._front.crowd.enter(self.client[0] if self.client else "")
        if place.refused is not None:
            self._refuse(*place.refused, b"retry-after: 1\r\n")
        elif not place.inside:
            transport.abort()

    def read(self, data: bytes) -> None:
        if len(data) > MANY or self._portions:
            self._portions.add(data)
        elif len(data) > SLICE:
            self._portions.feed(memoryview(data))
        else:
            current = self.lane.current
            fresh = current is None and not self.lane.in_message
            if current is not None and (self.cycle is None or self.cycle.response_complete):
                self.cycle = current  # the lane's own: what comes now is to wait for it
            self._latest = None  # of a request in several packets: its head is not the one in these bytes
            self._feed(data)
            if fresh:
                self._remember(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading = None
        self._portions.lost()
        self.pipeline.clear()
        self._front.crowd.leave(self._place)
        if isinstance(self.cycle, Exchange):
            self.cycle = None
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read: neither does it send."""
        super().pause_writing()
        self.flow.pause_reading()
        self.lane.since = self.loop.time()

    # Called by the parser

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise Refused(503, f"more than {MAX_PIPELINED} requests of this connection wait for answers")
        self._target = b""
        self._reading, self._begun = None, False
        self._in_head = self.lane.in_message = True
        self._fields = self._overhead = 0
        self.lane.since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        self._target = self._target + url if self._target else url
        known = self._target in self._front.selection.targets
        self._reading = Exchange(self.lane, self.parser.get_method(), self._target, {}) if known else None

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: what proxies check and rewrite is in the head, so nothing here counts
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise Refused(431, f"the request has more than {MAX_FIELDS} header fields")
        exchange = self._reading
        if exchange is None:
            exchange = self._settle_target()
            if exchange is None:
                super().on_header(name, value)
                return
        wanted = SPELLINGS.get(name) or SPELLINGS.get(name.lower())
        if wanted is None and name[:10].lower() == b"mcp-param-":
            wanted = name.lower()
        if wanted is not None:
            headers = exchange.headers
            headers[wanted] = value if wanted not in headers else headers[wanted] + b", " + value

    def on_headers_complete(self) -> None:
        exchange = self._reading or self._settle_target()
        if exchange is None:
            self.headers[:] = framing.settled(self.parser.get_http_version(), self.headers, self._target)
            super().on_headers_complete()
            self._in_head = False
            return
        headers = exchange.headers
        framing.check(self.parser.get_http_version(), headers.get(b"host"), headers.get(b"transfer-encoding"))
        self._in_head = False
        if b"fairlead-tier" in headers:
            whole = self._front.selection.targets.get(exchange.target)
            if whole is not None:
                exchange.target = in_tier(whole.base, headers[b"fairlead-tier"].decode("latin-1").strip())
        if b"connection" in headers and self.parser.should_upgrade():
            self._upgrading = exchange
            return
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._front.bounds.body:
            raise Refused(413, f"the body is larger than {self._front.bounds.body} bytes")
        if b"expect" in headers and self.lane.current is None and headers[b"expect"].lower() == b"100-continue":
            self.transport.write(replies.CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._overhead -= len(body) + CHUNK_BYTES
        exchange = self._reading
        if exchange is None:
            super().on_body(body)
            return
        if not exchange.body:
            exchange.body = body
            return
        if len(exchange.body) + len(body) > self._front.bounds.body:
            raise Refused(413, f"the body is larger than {self._front.bounds.body} bytes")
        if isinstance(exchange.body, bytes):
            exchange.body = bytearray(exchange.body)
        exchange.body += body

    def on_message_complete(self) -> None:
        self.lane.in_message = False
        exchange, self._reading = self._reading, None
        if exchange is None:
            super().on_message_complete()
            return
        if self.transport.is_closing() or self._upgrading is exchange:
            return
        keep = self.parser.should_keep_alive()
        if not keep or b"connection" in exchange.headers:
            exchange.can_stream = self.parser.get_http_version() != "1.0"
            keep = keep and exchange.can_stream
        exchange.keep_alive = keep
        self._latest = exchange
        latest, self.cycle = self.cycle, exchange
        if self.lane.current is None and (latest is None or latest.response_complete) and not self.flow.write_paused:
            self._serve(exchange)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, None))

    # Called by uvicorn's own cycles

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.lane.current = cycle
        if self.lane.ending:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.lane.answered()

    # Called by the listener

    def retire(self) -> None:
        """Close after the next answer, which says so: a client that is sending just now loses nothing."""
        self.lane.ending = True
        for cycle in (self.cycle, self.lane.current):
            if cycle is not None:
                cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close when nothing is in progress, else after what is."""
        self.retire()
        if self.lane.current is None and not self.lane.in_message:
            self.transport.close()

    def check(self, now: float) -> None:
        """End what takes too long. Deadlines are looked at from outside because a timer per connection costs more."""
        bounds, waited = self._front.bounds, now - self.lane.since
        if self._lingering:
            if waited > LINGER_SECONDS:
                self.transport.abort()
        elif self.flow.write_paused:
            if waited > bounds.stalled_seconds:
                self.transport.abort()
        elif self.lane.in_message:
            if waited > (bounds.head_seconds if self._in_head else bounds.body_seconds):
                self._refuse(408, "the request did not arrive in time")
        elif self.lane.current is None and waited > bounds.keep_alive:
            self.transport.close()

    # Inside

    def _remember(self, data: bytes) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            self.lane.familiar = self._front.familiars.of(latest, data) or self.lane.familiar

    def _feed(self, data: bytes | memoryview) -> None:
        if self.lane.deaf:
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            self._decline_upgrade(bytes(data[error.args[0] :]))
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, Refused):
                self._refuse(cause.status, str(cause))
            else:
                self._refuse(400, f"not HTTP/1.1: {error}")
            return
        if self.lane.in_message:
            self._overhead = max(self._overhead + len(data), 0)
            if self._overhead > self._front.bounds.head:
                what = "headers" if self._in_head else "chunk extensions and trailers"
                self._refuse(431, f"the {what} are larger than {self._front.bounds.head} bytes")

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read the request once more without the offer (RFC 9110 section 7.8 lets a server ignore it).

        The parser leaves the body of such a request unread. Java's client offers h2c with the first request it makes.
        """
        exchange, self._upgrading = self._upgrading, None
        if exchange is None:
            self.lane.deaf = True  # for the application, which takes no upgrade either; what follows is not HTTP
            return
        self.parser = httptools.HttpRequestParser(self)
        self._feed(framing.without_upgrade(exchange.method, self._target, exchange.headers))
        self._feed(rest)

    def _settle_target(self) -> Exchange | None:
        """The target is complete and not one of the usual: an odd form of an MCP endpoint, or a path of the
        application.
        """
        if self._begun:
            return None
        endpoint = targets.find(self._target)
        if endpoint is not None:
            self._reading = exchange = Exchange(self.lane, self.parser.get_method(), endpoint.target, {})
            exchange.authority = endpoint.authority
            return exchange
        self._begun = True
        super().on_message_begin()
        super().on_url(self._target)
        return None

    def _serve(self, exchange: Exchange) -> None:
        self.lane.current = exchange
        self._front.serve(exchange)

    def advance(self) -> None:
        """Serve what waits in the pipeline, one at a time; read on when nothing does. In a loop, as answers may be
        immediate.
        """
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._may_go_on():
                cycle, app = self.pipeline.pop()
                if isinstance(cycle, Exchange):
                    self._serve(cycle)
                else:
                    self._start_asgi_task(cycle, app)
        finally:
            self._advancing = False
        if self.lane.current is None and not self.pipeline and not self.transport.is_closing():
            if self._farewell is not None:
                self._say_farewell(self._farewell)
            elif not self.flow.write_paused:
                self.flow.resume_reading()

    def _may_go_on(self) -> bool:
        """Whether the oldest request of the pipeline can be served now."""
        idle = self.lane.current is None and not self.lane.congested
        return bool(self.pipeline) and idle and not self.transport.is_closing()

    def _refuse(self, status: int, message: str, extra: bytes = replies.NO_EXTRA) -> None:
        """Read nothing more, answer what came before, then this, then close."""
        if self._farewell is not None or self.transport.is_closing():
            return
        self.lane.deaf = True
        answered = self._abandon_unread()
        self._in_head = self.lane.in_message = False
        self._reading = None
        self._front.book.reject(status)
        body = replies.error_body(Rejection(status, jsonrpc.INVALID_REQUEST, message))
        self._farewell = b"" if answered else replies.head(status, len(body), replies.CLOSE + extra) + body
        if self.lane.current is None and not self.pipeline:
            self._say_farewell(self._farewell)

    def _abandon_unread(self) -> bool:
        """Tell the application that the rest of the body which it waits for never comes, as if the client had gone.
        True where the request was answered without that rest.
        """
        cycle = self.cycle
        if self._in_head or self._reading is not None or not self.lane.in_message:
            return False
        if cycle.response_complete:
            return True
        cycle.disconnected = True
        cycle.message_event.set()
        if cycle is not self.lane.current:
            self.pipeline.popleft()
        elif cycle.response_started:
            self.transport.close()  # half of an answer is no place for another one
        else:
            self.lane.current = None
        return False

    def _say_farewell(self, farewell: bytes) -> None:
        """Write, close our half, and let the client read: closing both halves at once would make its kernel drop
        the answer.
        """
        if self._lingering:
            return
        self._lingering = True
        self.lane.since = self.loop.time()
        self.flow.resume_reading()
        self.transport.write(farewell)
        if self.transport.can_write_eof():
            self.transport.write_eof()


def connections(
    front: Front, app: Callable[..., Any]
) -> tuple[Callable[[asyncio.AbstractEventLoop], Any], ServerState]:
    """A factory of connections for `loop.create_server`, which takes any object with a protocol's methods; and the
    state that they share: who is connected, ASGI tasks.
    """
    config = Config(
        app, http=McpProtocol, ws="none", lifespan="off", interface="asgi3", loop="none",
        log_config=None, access_log=False, date_header=False, server_header=False, proxy_headers=False,
    )  # fmt: skip
    config.load()
    state = ServerState()
    return lambda loop: McpProtocol(front, config, state, loop).lane, state
