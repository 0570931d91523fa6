"""HTTP server of the operations port, which serves metrics, reports and probes. Each connection has one request.

The operations port is separate from the port for MCP clients, has its own limit on connections, and needs no client
certificates. So probes are answered even if clients use all connections of their port.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl, unquote

import httptools

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.core.operations_page import Page, PageRequest, PageResponse, failure
from fairlead_gateway.core.request import by_name
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.client_limits import ClientLimits
from fairlead_gateway.endpoint.exchange import HttpConnection
from fairlead_gateway.endpoint.fallback import FallbackRequest, RequestServer
from fairlead_gateway.endpoint.framing import Field, FramingError
from fairlead_gateway.endpoint.http_service import HttpService, PortLimits
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_mcp.addresses import AllowList
from fairlead_mcp.asyncio_tasks import TaskSet

log = logging.getLogger(__name__)

METHODS: Final = frozenset({b"GET", b"HEAD"})
LIFE_SECONDS: Final = LONGEST_WAIT_S + 10.0
"""Timeout in seconds for the answer of a page, which is longer than the longest long poll."""
MAX_REQUEST_BYTES: Final = 16 << 10
"""Maximum number of bytes of a request's head, and of its body."""
CONNECTIONS: Final = 512
"""Maximum number of open connections."""
CONNECTIONS_EACH: Final = CONNECTIONS * 3 // 4
"""Maximum number of open connections of one address."""
_BOUNDS: Final = ClientLimits(
    head=MAX_REQUEST_BYTES,
    body=MAX_REQUEST_BYTES,
    keep_alive=10.0,
    body_seconds=10.0,
    connections=CONNECTIONS,
    connections_each=CONNECTIONS_EACH,
)


def operations_service() -> HttpService:
    """HTTP service of the operations port."""
    return HttpService(PortLimits(_BOUNDS, TrustedProxies(), AnswerBuffers()))


class PageServer(RequestServer):
    """Answers each request with the page for the request's path. Paths in `public` are served for any `Host` and
    `Origin`."""

    def __init__(self, pages: Mapping[str, Page], allow: AllowList, public: Collection[str] = ()) -> None:
        self._pages = pages
        self._allow = allow
        self._public_paths = public
        self._tasks = TaskSet()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks of the pages in progress."""
        return [*self._tasks]

    def request(
        self, connection: HttpConnection, method: bytes, target: bytes, fields: Sequence[Field]
    ) -> PageExchange:
        return PageExchange(self, connection)

    def start(self, request: FallbackRequest) -> None:
        assert isinstance(request, PageExchange)
        request.task = self._tasks.start(self._serve(request), "operations page")

    async def end_waits(self) -> None:
        await self._tasks.cancel()

    async def _serve(self, exchange: PageExchange) -> None:
        request = exchange.page_request()
        try:
            async with asyncio.timeout(LIFE_SECONDS):
                response = await self._answer(exchange.method, request)
        except TimeoutError:
            response = failure(503, "the page was not written in time: try again")
        except Exception:
            log.exception("The page %s of the operations port failed", request.path)
            response = failure(500, "the page failed; the gateway's log has the reason")
        finally:
            exchange.task = None
        exchange.answer(response)

    async def _answer(self, method: bytes, request: PageRequest) -> PageResponse:
        page = self._pages.get(request.path)
        if page is None:
            return failure(404, "the operations port has no page at this path")
        if method not in METHODS:
            return failure(405, "the operations port only supports GET and HEAD", b"allow: GET, HEAD\r\n")
        # a kubelet may use any host name for probes, which reveal nothing confidential
        rejection = None if request.path in self._public_paths else self._check_headers(request)
        return rejection or await page(request)

    def _check_headers(self, request: PageRequest) -> PageResponse | None:
        """Rejection of a request by its Host or Origin, because a foreign web page may have sent it (DNS rebinding);
        None for other requests."""
        if not self._allow.allows_host(request.headers.get(b"host") or None):
            return failure(421, "the name in the header Host is not allowed: add it to FAIRLEAD_ALLOWED_HOSTS")
        if not self._allow.allows_origin(request.headers.get(b"origin") or None):
            return failure(403, "the header Origin is not allowed: add its value to FAIRLEAD_ALLOWED_ORIGINS")
        return None


class PageExchange(FallbackRequest):
    """One request for a page, and its response. The connection closes after the response. The request's body is
    ignored."""

    __slots__ = ("_bytes_left", "_url", "fields", "method", "task")

    def __init__(self, server: PageServer, connection: HttpConnection) -> None:
        super().__init__(server, connection)
        self.method = b"GET"
        self.fields: Sequence[Field] = ()
        self.task: asyncio.Task[None] | None = None
        """Task that produces the page."""
        self._bytes_left = MAX_REQUEST_BYTES
        """Maximum number of bytes that the rest of the body may have."""

    def head(self, method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> None:
        try:
            self._url = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError as error:
            raise FramingError(400, "the request target is not a valid URL") from error
        self.method = method
        self.fields = fields

    def body(self, data: bytes) -> None:
        """Discard a part of the body. Raises FramingError if the body is too large."""
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise FramingError(413, f"the body is larger than {MAX_REQUEST_BYTES} bytes")

    def end(self) -> None:
        """Do nothing, because the body is ignored."""

    def page_request(self) -> PageRequest:
        """The parsed request for the page."""
        path, query = ((part or b"").decode("latin-1") for part in (self._url.path, self._url.query))
        address = "" if self._connection.client is None else self._connection.client[0]
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        return PageRequest(unquote(path) or "/", parameters, by_name(self.fields), address)

    def answer(self, response: PageResponse) -> None:
        """Write the response and close the connection."""
        head = responses.last_head(response.status, response.media_type, len(response.body), response.header_lines)
        self.response_started = True
        self.write(head if self.method == b"HEAD" else head + response.body)
        self.close()

    def on_disconnect(self) -> None:
        super().on_disconnect()
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
