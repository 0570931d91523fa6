"""The operations port: metrics, reports and probes, on a port of its own.

Probes are answered even when clients have all connections, or have to show certificates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote

import httptools

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.core.client_message import by_name
from fairlead_gateway.core.operations_page import Page, PageRequest, PageResponse, failure
from fairlead_gateway.endpoint import framing, responses
from fairlead_gateway.endpoint.framing import Field, FramingError
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_mcp.addresses import unmapped
from fairlead_mcp.hosts import AllowList
from fairlead_mcp.listening import listen
from fairlead_web.guard import PROBES

log = logging.getLogger("fairlead_gateway")

METHODS: Final = frozenset({b"GET", b"HEAD"})
LIFE_SECONDS: Final = LONGEST_WAIT_S + 10.0
"""How long a connection may last, with the answer that is waited for longest."""
MAX_REQUEST_BYTES: Final = 16 << 10
"""Bytes that a connection may send."""


class OperationsServer:
    """Answers one request per connection with the page of its path. `port` 0 takes a free one."""

    def __init__(self, pages: Mapping[str, Page], allow: AllowList, host: str, port: int) -> None:
        self._pages = pages
        self._allow = allow
        self.connections: set[PageConnection] = set()
        """Open connections."""
        self.host = host
        self.port = port
        self.stopped = False
        """Whether connections that were accepted just before are closed."""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises PortTaken."""
        try:
            self._server = await listen(lambda: PageConnection(self), self.host, self.port)
        except OSError as error:
            raise PortTaken.from_error(error, self.host, self.port) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the listener and what waits for an answer."""
        self.stopped = True
        if self._server is not None:
            self._server.close()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        for connection in [*self.connections]:
            connection.abort()  # its task is cancelled once it is lost
        await asyncio.gather(*tasks, return_exceptions=True)

    async def answer(self, method: bytes, request: PageRequest) -> PageResponse:
        """The response to a request that was made with `method`. Raises what its page raises."""
        page = self._pages.get(request.path)
        if page is None:
            return failure(404, "there is nothing here")
        if method not in METHODS:
            return failure(405, "pages of this port are read with GET", b"allow: GET, HEAD\r\n")
        # a kubelet asks for probes under any host name, and they tell nothing of anybody
        misplaced = None if request.path in PROBES else self._misplaced(request)
        return misplaced or await page(request)

    def _misplaced(self, request: PageRequest) -> PageResponse | None:
        """The refusal of a request that a web page from elsewhere may have made a browser send (DNS rebinding)."""
        if not self._allow.host(request.headers.get(b"host") or None):
            return failure(421, "Host is not one that this port answers for; FAIRLEAD_ALLOWED_HOSTS lists more")
        if not self._allow.origin(request.headers.get(b"origin") or None):
            return failure(403, "Origin is not allowed; FAIRLEAD_ALLOWED_ORIGINS lists more")
        return None


class PageConnection(asyncio.Protocol):
    """Connection that reads one request, answers it and closes, within bounds of bytes and time."""

    def __init__(self, server: OperationsServer) -> None:
        self._server = server
        self._parser: Any = httptools.HttpRequestParser(self)
        self._left = MAX_REQUEST_BYTES
        self._method = b"GET"
        self._target = b""
        self._fields: list[Field] = []
        self.task: asyncio.Task[None] | None = None
        """Makes and writes the answer, once the request was read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not derive from it
        self._timer = asyncio.get_running_loop().call_later(LIFE_SECONDS, self.abort)
        self._server.connections.add(self)
        if self._server.stopped:
            self.abort()

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.abort()
        elif self.task is None and not self._transport.is_closing():
            self._feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._server.connections.discard(self)
        self._parser = None  # it knows us, as the task does: cycles would wait for the garbage collector
        task, self.task = self.task, None
        if task is not None:
            task.cancel()

    def abort(self) -> None:
        """Close without a word."""
        self._transport.abort()

    # Called by the parser

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.task is None:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self.task is not None:
            return  # that of a second request
        self._method = self._parser.get_method()
        fields = framing.settled(self._parser.get_http_version(), self._fields, self._target)
        self.task = asyncio.get_running_loop().create_task(self._serve(self._request(fields)), name="operations page")

    # Inside

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # what it offers to speak is not looked at, the request is answered
        except httptools.HttpParserError as error:
            if self.task is None:
                self._write(failure(*framing.refusal(error)))
                self._transport.close()

    def _request(self, fields: list[Field]) -> PageRequest:
        try:
            url = httptools.parse_url(self._target)
        except httptools.HttpParserInvalidURLError as error:
            raise FramingError(400, "the request target is not a valid URL") from error
        path, query = ((part or b"").decode("latin-1") for part in (url.path, url.query))
        peer = self._transport.get_extra_info("peername")
        address = unmapped(str(peer[0])) if isinstance(peer, tuple) else ""
        return PageRequest(
            unquote(path) or "/", dict(parse_qsl(query, keep_blank_values=True)), by_name(fields), address
        )

    async def _serve(self, request: PageRequest) -> None:
        try:
            self._write(await self._server.answer(self._method, request))
        except Exception:
            log.exception("The page %s cannot be made", request.path)
            self._write(failure(500, "the page cannot be made; the gateway's log says why"))
        finally:
            self._transport.close()

    def _write(self, response: PageResponse) -> None:
        head = responses.last_head(response.status, response.media_type, len(response.body), response.header_lines)
        self._transport.write(head if self._method == b"HEAD" else head + response.body)
