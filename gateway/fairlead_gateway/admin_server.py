"""The operations port: metrics, reports and probes, on a port of its own.

Probes are answered even when clients have all connections, or have to show certificates.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.endpoint.fallback import UvicornProtocols
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_mcp.hosts import AllowList

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Paths that a kubelet asks for under any host name; they tell nothing of anybody."""
LIFE_SECONDS: Final = LONGEST_WAIT_S + 10.0
"""How long a connection may last: it is one request."""
MAX_REQUEST_BYTES: Final = 16 << 10

Page: TypeAlias = Callable[[Request], Awaitable[Response]]


def guarded(token: str, page: Page) -> Page:
    """A page for those who know the token; without one set, for callers of this machine."""

    async def answer(request: Request) -> Response:
        if token:
            shown = request.headers.get("authorization", "").removeprefix("Bearer ")
            if hmac.compare_digest(shown.encode(), token.encode()):
                return await page(request)
            return PlainTextResponse("the bearer token is not the one of FAIRLEAD_PULL_TOKEN\n", 401)
        if request.client is not None and ipaddress.ip_address(request.client.host).is_loopback:
            return await page(request)
        return PlainTextResponse("without FAIRLEAD_PULL_TOKEN this is answered on the machine itself only\n", 403)

    return answer


class AdminServer:
    """Answers one GET request per connection with the page of its path. `port` 0 takes a free one."""

    def __init__(self, pages: Mapping[str, Page], allow: AllowList, host: str, port: int) -> None:
        self._allow = allow
        routes = [Route(path, self._checked(page), methods=["GET"]) for path, page in pages.items()]
        # a router alone: the middleware of a Starlette application is for debugging, and takes a megabyte
        router = Router(routes, redirect_slashes=False, default=_nothing)
        self._protocols = UvicornProtocols(router, [(b"connection", b"close")])
        self._open: set[_Connection] = set()
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises PortTaken."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Connection(self._protocols.new(), self._open), self.host, self.port
            )
        except OSError as error:
            raise PortTaken.from_error(error, self.host, self.port) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the listener and what waits for an answer."""
        if self._server is not None:
            self._server.close()
        for connection in [*self._open]:
            connection.abort()
        tasks = [*self._protocols.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _checked(self, page: Page) -> Page:
        """The page, for requests that no web page from elsewhere made a browser send (DNS rebinding)."""

        async def answer(request: Request) -> Response:
            misplaced = None if request.url.path in PROBES else self._misplaced(request)
            try:
                return misplaced or await page(request)
            except asyncio.CancelledError:  # by `stop`: the server would log it as a failure of the page
                return Response(status_code=503)

        return answer

    def _misplaced(self, request: Request) -> Response | None:
        host, origin = (", ".join(request.headers.getlist(name)).encode("latin-1") for name in ("host", "origin"))
        if not self._allow.host(host or None):
            return PlainTextResponse(
                "Host is not one that this port answers for; FAIRLEAD_ALLOWED_HOSTS lists more\n", 421
            )
        if not self._allow.origin(origin or None):
            return PlainTextResponse("Origin is not allowed; FAIRLEAD_ALLOWED_ORIGINS lists more\n", 403)
        return None


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(status_code=404)(scope, receive, send)


class _Connection(asyncio.Protocol):
    """A stock uvicorn protocol within bounds of bytes and time, which uvicorn has none of."""

    def __init__(self, inner: Any, open_: set[_Connection]) -> None:
        self._inner = inner
        self._open = open_
        self._left = MAX_REQUEST_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.abort = cast("asyncio.Transport", transport).abort  # uvloop's transports do not derive from it
        self._timer = asyncio.get_running_loop().call_later(LIFE_SECONDS, self.abort)
        self._open.add(self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.abort()
        else:
            self._inner.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._open.discard(self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
