"""Requests for paths other than MCP endpoints (REST, probes, metadata). An ASGI application answers them.

Each request is served by its own uvicorn protocol, whose transport is a `FallbackRequest`. The connection has already
parsed and checked the request. The request is serialized again, with a single framing header, for uvicorn to parse. The
ASGI messages of the application show when the response is complete. uvicorn is imported at the first such request
(`uvicorn_protocols`).
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead_gateway.core.identity import BY_OWNER
from fairlead_gateway.deferred import Deferred
from fairlead_gateway.endpoint import framing, responses
from fairlead_gateway.endpoint.exchange import HttpConnection
from fairlead_gateway.endpoint.framing import Field
from fairlead_gateway.endpoint.upgrades import UpgradeHandler
from fairlead_gateway.heap import Heap

if TYPE_CHECKING:
    from fairlead_gateway.endpoint.uvicorn_protocols import UvicornProtocols

WRITE_BUFFER: Final = 2 << 10
"""Number of unsent bytes above which the application has to wait until the client reads."""
log = logging.getLogger(__name__)

_REQUEST: Final = "fairlead_request"
"""Key of the `FallbackRequest` in `state` of the ASGI scope."""


class RequestServer(ABC):
    """Answers the requests for paths other than MCP endpoints."""

    upgrades: UpgradeHandler | None = None
    """Handler of `Upgrade` requests; None declines all of them."""

    @property
    @abstractmethod
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks of the requests in progress."""

    @abstractmethod
    def request(
        self, connection: HttpConnection, method: bytes, target: bytes, fields: Sequence[Field]
    ) -> FallbackRequest:
        """Create a request, to which the `RequestReader` then adds head and body."""

    @abstractmethod
    def start(self, request: FallbackRequest) -> None:
        """Serve a request, after the connection has answered the earlier requests."""

    @abstractmethod
    async def end_waits(self) -> None:
        """End long polls and event streams, because the port is about to close."""


class FallbackServer(RequestServer):
    """Serves the requests of an ASGI application."""

    def __init__(self, app: ASGIApp, heap: Heap, upgrades: UpgradeHandler | None = None) -> None:
        self.app = app
        self.upgrades = upgrades
        self._protocols = Deferred(self._import, heap)
        self._starts: set[asyncio.Task[None]] = set()
        """Tasks of requests that wait for the import of uvicorn."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        protocols = self._protocols.part
        return [*self._starts, *(() if protocols is None else protocols.tasks)]

    def request(
        self, connection: HttpConnection, method: bytes, target: bytes, fields: Sequence[Field]
    ) -> FallbackRequest:
        return FallbackRequest(self, connection)

    def start(self, request: FallbackRequest) -> None:
        """Attach the request to a uvicorn protocol, now or when uvicorn has been imported."""
        protocols = self._protocols.part
        if protocols is not None:
            request.attach(protocols.new(**{_REQUEST: request}))
            return
        task = asyncio.get_running_loop().create_task(self._import_for(request), name="import of uvicorn")
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    async def end_waits(self) -> None:
        """No-op: the application ends its own waits."""

    def _import(self) -> UvicornProtocols:
        from fairlead_gateway.endpoint.uvicorn_protocols import UvicornProtocols

        return UvicornProtocols(self._serve)

    async def _import_for(self, request: FallbackRequest) -> None:
        try:
            protocols = await self._protocols.get()
        except asyncio.CancelledError:
            request.close()
            raise
        except Exception:
            log.exception("The HTTP server of REST and probes cannot be started; the request gets a 500")
            request.fail()
            return
        if not request.response_complete:
            request.attach(protocols.new(**{_REQUEST: request}))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request: FallbackRequest = scope["state"].pop(_REQUEST)
        request.scope = scope
        scope[BY_OWNER] = request.is_by_owner

        async def forward(message: Message) -> None:
            request.response_started = True
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                request.finish()

        await self.app(scope, receive, forward)


class FallbackRequest(asyncio.Transport):
    """One request for the ASGI application, and the transport of the uvicorn protocol that serves the request.

    `head` and `body` may be called before `start`: bytes are stored while earlier requests are answered.
    """

    __slots__ = (
        "_body_paused",
        "_chunked",
        "_connection",
        "_pending_data",
        "_protocol",
        "_server",
        "keep_alive",
        "response_complete",
        "response_started",
        "scope",
    )

    def __init__(self, server: RequestServer, connection: HttpConnection) -> None:
        super().__init__()
        self._server = server
        self._connection = connection
        self._chunked = False
        """Whether the body is sent to uvicorn in chunked coding."""
        self._body_paused = False
        """Whether reading the body from the client is paused."""
        self._protocol: Any = None
        """uvicorn protocol; None before `attach` and after the response."""
        self._pending_data: list[bytes] = []
        """Bytes received before `attach`."""
        self.keep_alive = True
        self.response_started = False
        self.response_complete = False
        self.scope: Message = {}
        """ASGI scope of the request; empty before uvicorn has parsed the request."""

    def is_by_owner(self) -> bool:
        """Whether the connection comes from the machine's owner."""
        return self._connection.is_by_owner()

    # Interface for the reader and the connection

    def head(self, method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> None:
        """Add the checked head, with header names in lower case."""
        lines, self._chunked = framing.serialize_head(method, target, version, fields)
        self._pending_data.append(lines)

    def body(self, data: bytes) -> None:
        if self._chunked:
            self._receive(b"%x\r\n" % len(data))
            self._receive(data)
            self._receive(b"\r\n")
        else:
            self._receive(data)

    def end(self) -> None:
        """Add the end of the body."""
        if self._chunked:
            self._receive(b"0\r\n\r\n")

    def start(self) -> None:
        """Serve the request."""
        self._server.start(self)

    def attach(self, protocol: Any) -> None:
        """Pass the bytes received so far, and all further bytes, to the protocol."""
        if self._body_paused:
            self.resume_reading()
        waiting, self._pending_data = self._pending_data, []
        if not self.keep_alive or self._connection.ending:
            waiting[0] = waiting[0][:-2] + b"connection: close\r\n\r\n"
        self._protocol = protocol
        self._connection.transport.set_write_buffer_limits(WRITE_BUFFER)
        protocol.connection_made(self)
        for data in waiting:
            self._receive(data)

    @property
    def body_is_paused(self) -> bool:
        """Whether the reading of the body is paused, because the application has not consumed the bytes read so far."""
        return self._body_paused and not self.response_complete

    def retire(self) -> None:
        """Close the connection after the response, with `Connection: close` if the response has not begun."""
        self.keep_alive = False
        if self._protocol is not None:
            self._protocol.shutdown()

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def on_disconnect(self) -> None:
        """Detach the uvicorn protocol. uvicorn then tells the application that the client has disconnected."""
        self.response_complete = True
        self._pending_data.clear()
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(None)

    def fail(self) -> None:
        """Answer with a 500, and close the connection."""
        if not self.response_complete:
            self._connection.transport.write(responses.empty_response(500, responses.CLOSE))
            self.close()

    def finish(self) -> None:
        """Record that the whole response was written."""
        if not self.response_complete:
            self.on_disconnect()
            self._connection.end_exchange()

    def _receive(self, data: bytes) -> None:
        if self._protocol is not None:
            self._protocol.data_received(data)
        elif not self.response_complete:
            self._pending_data.append(data)
            self.pause_reading()

    # asyncio.Transport, for uvicorn

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self.response_complete:
            self._connection.transport.write(data)

    def close(self) -> None:
        """Close the connection, after its last response, or because a response cannot be completed."""
        if not self.response_complete:
            self._connection.transport.close()
            self.finish()

    def is_closing(self) -> bool:
        return self.response_complete or self._connection.transport.is_closing()

    def pause_reading(self) -> None:
        self._body_paused = True
        self._connection.update_reading()

    def resume_reading(self) -> None:
        self._body_paused = False
        if not self.response_complete:
            self._connection.update_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._connection.transport.get_extra_info(name, default)
