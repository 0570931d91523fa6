"""Pages of the operations port: metrics, reports and probes, one request per connection.

The port is one of its own, with a limit of its own, so that probes are answered even when clients have all connections
of theirs, or have to show certificates.
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
"""How long a page may take, with the answer that is waited for longest."""
MAX_REQUEST_BYTES: Final = 16 << 10
"""Bytes of the head of a request, and of its body."""
CONNECTIONS: Final = 512
"""At once; CONNECTIONS_EACH of them from one address."""
CONNECTIONS_EACH: Final = CONNECTIONS * 3 // 4
_BOUNDS: Final = ClientLimits(
    head=MAX_REQUEST_BYTES,
    body=MAX_REQUEST_BYTES,
    keep_alive=10.0,
    body_seconds=10.0,
    connections=CONNECTIONS,
    connections_each=CONNECTIONS_EACH,
)


def operations_service() -> HttpService:
    """Service of the operations port, whose requests are all for pages."""
    return HttpService(PortLimits(_BOUNDS, TrustedProxies(), AnswerBuffers()))


class PageServer(RequestServer):
    """Answers requests with the page of their path. `public` are paths that are answered under any `Host`."""

    def __init__(self, pages: Mapping[str, Page], allow: AllowList, public: Collection[str] = ()) -> None:
        self._pages = pages
        self._allow = allow
        self._public = public
        self._tasks = TaskSet()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Pages that are being made."""
        return [*self._tasks]

    def request(self, connection: HttpConnection) -> PageExchange:
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
            response = failure(503, "the page was not made in time")
        except Exception:
            log.exception("The page %s cannot be made", request.path)
            response = failure(500, "the page cannot be made; the gateway's log says why")
        finally:
            exchange.task = None
        exchange.answer(response)

    async def _answer(self, method: bytes, request: PageRequest) -> PageResponse:
        page = self._pages.get(request.path)
        if page is None:
            return failure(404, "there is nothing here")
        if method not in METHODS:
            return failure(405, "pages of this port are read with GET", b"allow: GET, HEAD\r\n")
        # a kubelet asks for probes under any host name, and they tell nothing of anybody
        misplaced = None if request.path in self._public else self._misplaced(request)
        return misplaced or await page(request)

    def _misplaced(self, request: PageRequest) -> PageResponse | None:
        """The refusal of a request that a web page from elsewhere may have made a browser send (DNS rebinding)."""
        if not self._allow.host(request.headers.get(b"host") or None):
            return failure(421, "Host is not one that this port answers for; FAIRLEAD_ALLOWED_HOSTS lists more")
        if not self._allow.origin(request.headers.get(b"origin") or None):
            return failure(403, "Origin is not allowed; FAIRLEAD_ALLOWED_ORIGINS lists more")
        return None


class PageExchange(FallbackRequest):
    """One request for a page, and its response, which is the last of its connection. The body is not looked at."""

    __slots__ = ("_left", "_url", "fields", "method", "task")

    def __init__(self, server: PageServer, connection: HttpConnection) -> None:
        super().__init__(server, connection)
        self.method = b"GET"
        self.fields: Sequence[Field] = ()
        self.task: asyncio.Task[None] | None = None
        """Makes the page."""
        self._left = MAX_REQUEST_BYTES

    def head(self, method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> None:
        try:
            self._url = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError as error:
            raise FramingError(400, "the request target is not a valid URL") from error
        self.method = method
        self.fields = fields

    def body(self, data: bytes) -> None:
        """Drop it. Raises FramingError."""
        self._left -= len(data)
        if self._left < 0:
            raise FramingError(413, f"the body is larger than {MAX_REQUEST_BYTES} bytes")

    def end(self) -> None:
        """Nothing of the body is waited for."""

    def page_request(self) -> PageRequest:
        """The request as its page takes it."""
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

    def lost(self) -> None:
        super().lost()
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
