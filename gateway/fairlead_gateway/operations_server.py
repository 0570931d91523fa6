"""The operations port: metrics, reports and probes, on a port of its own.

Probes are answered even when clients have all connections, or have to show certificates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import httptools

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.core.operations_page import Page, PageRequest, PageResponse, refusal
from fairlead_gateway.endpoint import framing, responses
from fairlead_gateway.endpoint.framing import Field, FramingError
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_mcp.hosts import AllowList

log = logging.getLogger(__name__)

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Paths that a kubelet asks for under any host name; they tell nothing of anybody."""
METHODS: Final = frozenset({b"GET", b"HEAD"})
LIFE_SECONDS: Final = LONGEST_WAIT_S + 10.0
"""How long a connection may last: it is one request."""
MAX_REQUEST_BYTES: Final = 16 << 10


class AdminServer:
    """Answers one request per connection with the page of its path. `port` 0 takes a free one."""

    def __init__(self, pages: Mapping[str, Page], allow: AllowList, host: str, port: int) -> None:
        self._pages = pages
        self._allow = allow
        self._connections: set[_Connection] = set()
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None

    @property
    def answering(self) -> int:
        """Requests whose pages are being made."""
        return sum(connection.task is not None for connection in self._connections)

    async def start(self) -> None:
        """Raises PortTaken."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Connection(self._answer, self._connections), self.host, self.port
            )
        except OSError as error:
            raise PortTaken.from_error(error, self.host, self.port) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the listener and what waits for an answer."""
        if self._server is not None:
            self._server.close()
        connections = [*self._connections]
        for connection in connections:
            connection.abort()
        tasks = [connection.task for connection in connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, method: bytes, request: PageRequest) -> PageResponse:
        page = self._pages.get(request.path)
        if page is None:
            return refusal(404, "there is nothing here")
        if method not in METHODS:
            return refusal(405, "pages of this port are read with GET", b"allow: GET, HEAD\r\n")
        misplaced = None if request.path in PROBES else self._misplaced(request)
        return misplaced or await page(request)

    def _misplaced(self, request: PageRequest) -> PageResponse | None:
        """The refusal of a request that a web page from elsewhere may have made a browser send (DNS rebinding)."""
        if not self._allow.host(request.headers.get(b"host")):
            return refusal(421, "Host is not one that this port answers for; FAIRLEAD_ALLOWED_HOSTS lists more")
        if not self._allow.origin(request.headers.get(b"origin")):
            return refusal(403, "Origin is not allowed; FAIRLEAD_ALLOWED_ORIGINS lists more")
        return None


class _Connection(asyncio.Protocol):
    """Connection that reads one request, answers it and closes, within bounds of bytes and time."""

    def __init__(self, answer: Callable[..., Any], connections: set[_Connection]) -> None:
        self._make = answer
        self._connections = connections
        self._parser: Any = httptools.HttpRequestParser(self)
        self._left = MAX_REQUEST_BYTES
        self._target = b""
        self._fields: list[Field] = []
        self._refused = False
        self.task: asyncio.Task[None] | None = None
        """Its request, once it was read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not derive from it
        self.abort = self._transport.abort
        self._timer = asyncio.get_running_loop().call_later(LIFE_SECONDS, self.abort)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.abort()
        elif self.task is None and not self._refused:
            self._feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._connections.discard(self)
        self._parser = None  # it knows us: a cycle would wait for the garbage collector
        if self.task is not None:
            self.task.cancel()

    # Called by the parser

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.task is None:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self.task is not None:
            return
        method = self._parser.get_method()
        fields = framing.settled(self._parser.get_http_version(), self._fields, self._target)
        self.task = asyncio.get_running_loop().create_task(self._serve(method, self._request(fields)))

    # Inside

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # what it offers to speak is not looked at, the request is answered
        except httptools.HttpParserError as error:
            cause = error.__context__
            if self.task is None:
                self._refused = True
                refused = refusal(400, f"not HTTP/1.1: {error}")
                if isinstance(cause, FramingError):
                    refused = refusal(cause.status, str(cause))
                self._write(b"GET", refused)

    def _request(self, fields: list[Field]) -> PageRequest:
        url = httptools.parse_url(self._target)
        headers: dict[bytes, bytes] = {}
        for name, value in fields:
            headers[name] = value if name not in headers else headers[name] + b", " + value
        query = dict(parse_qsl((url.query or b"").decode("latin-1"), keep_blank_values=True))
        peer = self._transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        return PageRequest((url.path or b"/").decode("latin-1"), query, headers, address)

    async def _serve(self, method: bytes, request: PageRequest) -> None:
        try:
            response = await self._make(method, request)
        except Exception:
            log.exception("The page %s cannot be made", request.path)
            response = refusal(500, "the page cannot be made; the gateway's log says why")
        self._write(method, response)

    def _write(self, method: bytes, response: PageResponse) -> None:
        head = responses.last_head(response.status, response.media_type, len(response.body), response.extra)
        self._transport.write(head if method == b"HEAD" else head + response.body)
        self._transport.close()
