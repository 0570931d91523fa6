"""The operations port: what Prometheus, the operator and a kubelet ask for, apart from what clients do: whether the
gateway is well is to be heard even when clients have all connections, or have to show certificates.

Made by `app`, which gives it a page per path. One request per connection, GET only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import parse_qs

import msgspec

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_mcp.hosts import AllowList

log = logging.getLogger(__name__)

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Paths that a kubelet asks for under any host name; they tell nothing of anybody."""
READ_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = LONGEST_WAIT_S + 10.0
MAX_HEAD: Final = 16 << 10
_REASONS: Final = {
    200: "OK",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    421: "Misdirected Request",
    503: "Service Unavailable",
}


class Asked(msgspec.Struct, frozen=True):
    """One request."""

    query: Mapping[str, str]
    token: str
    """Token from `Authorization: Bearer`; empty without."""
    peer: str
    """IP address."""


class Page(msgspec.Struct, frozen=True):
    """One answer."""

    status: int
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""


Pages = Mapping[str, Callable[[Asked], Awaitable[Page]]]


def guarded(token: str, page: Callable[[Asked], Awaitable[Page]]) -> Callable[[Asked], Awaitable[Page]]:
    """A page for those who know the token; without one set, for callers of this machine."""

    async def answer(asked: Asked) -> Page:
        if token:
            if hmac.compare_digest(asked.token.encode(), token.encode()):
                return await page(asked)
            return Page(401, body=b"the bearer token is not the one of FAIRLEAD_PULL_TOKEN\n")
        if asked.peer and ipaddress.ip_address(asked.peer).is_loopback:
            return await page(asked)
        return Page(403, body=b"without FAIRLEAD_PULL_TOKEN this is answered on the machine itself only\n")

    return answer


class OperationsServer:
    """HTTP server of the admin port. `port` 0 takes a free one."""

    def __init__(self, pages: Pages, allow: AllowList, host: str, port: int) -> None:
        self._pages = pages
        self._allow = allow
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises PortTaken."""
        try:
            self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=MAX_HEAD)
        except OSError as error:
            raise PortTaken.from_error(error, self.host, self.port) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the listener and what waits for an answer."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(written(await self._answer(head.decode("latin-1"), writer)))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass  # only `stop` does this, and waits
        except Exception:
            log.exception("A request to the operations port failed")
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await writer.wait_closed()

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> Page:
        first, *fields = head.split("\r\n")
        parts = first.split(" ")
        path, _, query = parts[1].partition("?") if len(parts) == 3 else ("", "", "")
        page = self._pages.get(path)
        if page is None or parts[0] != "GET":
            return Page(404)
        headers: dict[str, str] = {}
        for name, _, value in (field.partition(":") for field in fields):
            kept = headers.get(name.lower())
            headers[name.lower()] = value.strip() if kept is None else f"{kept}, {value.strip()}"
        misplaced = None if path in PROBES else self._misplaced(headers)
        if misplaced is not None:
            return misplaced
        peer = writer.get_extra_info("peername")
        return await page(
            Asked(
                query={name: values[-1] for name, values in parse_qs(query).items()},
                token=headers.get("authorization", "").removeprefix("Bearer "),
                peer=peer[0] if peer else "",
            )
        )

    def _misplaced(self, headers: Mapping[str, str]) -> Page | None:
        """The refusal of what a web page from elsewhere may have made a browser of this machine ask (DNS rebinding)."""
        host, origin = headers.get("host"), headers.get("origin")
        if not self._allow.host(None if host is None else host.encode("latin-1")):
            return Page(421, body=b"Host is not one that this port answers for; FAIRLEAD_ALLOWED_HOSTS lists more\n")
        if not self._allow.origin(None if origin is None else origin.encode("latin-1")):
            return Page(403, body=b"Origin is not allowed; FAIRLEAD_ALLOWED_ORIGINS lists more\n")
        return None


def written(page: Page) -> bytes:
    """An answer as HTTP/1.1 has it."""
    return (
        f"HTTP/1.1 {page.status} {_REASONS.get(page.status, '')}\r\ncontent-type: {page.content_type}\r\n"
        f"content-length: {len(page.body)}\r\nconnection: close\r\n\r\n"
    ).encode() + page.body
