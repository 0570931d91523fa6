"""Request with a short body that the ASGI application answers without uvicorn, and its response.

Only for targets with many requests, whose answers are written as a whole. The connection has already parsed and checked
the head. Serializing the head for uvicorn, which parses it again, would cost as much as the call of a tool. uvicorn
serves all other requests (`fallback`), and passes long bodies on in pieces.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from starlette.types import ASGIApp, Message

from fairlead_gateway.core.identity import BY_OWNER
from fairlead_gateway.core.request import ON_DISCONNECT
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.exchange import HttpConnection
from fairlead_gateway.endpoint.fallback import WRITE_BUFFER, FallbackRequest, FallbackServer
from fairlead_gateway.endpoint.framing import Field
from fairlead_gateway.endpoint.upgrades import UpgradeHandler
from fairlead_gateway.heap import Heap
from fairlead_mcp.asyncio_tasks import TaskSet

MAX_BODY_BYTES: Final = 64 << 10
"""Maximum bytes of a body that waits in memory until it is complete."""
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_WITHOUT_BODY: Final = (204, 304)
"""Statuses of responses that have neither a body nor a framing header (RFC 9112 section 6.3)."""
log = logging.getLogger(__name__)


def is_short(fields: Sequence[Field]) -> bool:
    """Whether the body of a request has a known length of up to MAX_BODY_BYTES, and the client does not wait for a 100
    response before it sends the body.
    """
    length = b""
    for name, value in fields:
        if name == b"content-length":
            length = value
        elif name in {b"transfer-encoding", b"expect"}:
            return False
    return length.isdigit() and int(length) <= MAX_BODY_BYTES


class DirectServer(FallbackServer):
    """Serves the requests of an ASGI application: short POST requests for some targets itself, others by uvicorn."""

    def __init__(
        self, app: ASGIApp, heap: Heap, upgrades: UpgradeHandler | None = None, *, targets: Collection[bytes]
    ) -> None:
        """`targets`: the paths that are served without uvicorn, if a request has no query. They contain no `%`."""
        super().__init__(app, heap, upgrades)
        self._targets = frozenset(targets)
        self.exchanges = TaskSet()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [*self.exchanges, *super().tasks]

    def request(
        self, connection: HttpConnection, method: bytes, target: bytes, fields: Sequence[Field]
    ) -> FallbackRequest:
        if target in self._targets and method == b"POST" and is_short(fields):
            return AsgiExchange(self, connection)
        return super().request(connection, method, target, fields)


class AsgiExchange(FallbackRequest):
    """One request that `is_short`. The application runs when the body is complete and earlier requests are answered."""

    __slots__ = (
        "_app",
        "_body",
        "_bytes_left",
        "_disconnection",
        "_has_body",
        "_is_next",
        "_on_disconnect",
        "_response_head",
        "_tasks",
        "_writable",
    )

    def __init__(self, server: DirectServer, connection: HttpConnection) -> None:
        super().__init__(server, connection)
        self._app = server.app
        self._tasks = server.exchanges
        self._body: list[bytes] | None = []
        """Parts of the request's body; None after the application has received them."""
        self._has_body = False
        """Whether the whole body has arrived."""
        self._is_next = False
        """Whether the connection has answered all earlier requests."""
        self._response_head = b""
        """Head of the response, until it is written together with the beginning of the body."""
        self._bytes_left: int | None = None
        """Bytes of the response's body that are still to be written; None if the body is chunked."""
        self._disconnection: asyncio.Future[None] | None = None
        """Done when the client has disconnected or the response is complete; None if the application does not wait."""
        self._on_disconnect: Callable[[], object] | None = None
        self._writable: asyncio.Future[None] | None = None
        """Done when the client has read; None if the write buffer is not full."""

    # Interface for the reader and the connection

    def head(self, method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> None:
        self.keep_alive = self.keep_alive and version == "1.1"
        transport = self._connection.transport
        self.scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method.decode("ascii"),
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
            "path": target.decode("ascii"),
            "raw_path": target,
            "query_string": b"",
            "root_path": "",
            "headers": fields,
            "client": self._connection.client,
            "server": transport.get_extra_info("sockname"),
            "state": {},
            BY_OWNER: self._connection.is_by_owner,
            ON_DISCONNECT: self._set_on_disconnect,
        }

    def body(self, data: bytes) -> None:
        if self._body is not None:
            self._body.append(data)

    def end(self) -> None:
        self._has_body = True
        self._run_when_complete()

    def start(self) -> None:
        self._is_next = True
        self._run_when_complete()

    def retire(self) -> None:
        self.keep_alive = False

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def on_disconnect(self) -> None:
        self.response_complete = True
        self.resume_writing()
        on_disconnect, self._on_disconnect = self._on_disconnect, None
        if on_disconnect is not None:
            on_disconnect()
        if self._disconnection is not None and not self._disconnection.done():
            self._disconnection.set_result(None)

    # Internals

    def _set_on_disconnect(self, on_disconnect: Callable[[], object] | None) -> None:
        """Set the function that is called once if the client disconnects; None for no function."""
        self._on_disconnect = on_disconnect
        if on_disconnect is not None and self.response_complete:
            self.on_disconnect()

    def _run_when_complete(self) -> None:
        if self._is_next and self._has_body:
            self._connection.transport.set_write_buffer_limits(WRITE_BUFFER)
            self._tasks.start(self._run(), "request for the application")

    async def _run(self) -> None:
        try:
            await self._app(self.scope, self._receive_message, self._send_message)
        except Exception:
            log.exception("The application failed to answer %s", self.scope["path"])
        finally:
            if not self.response_complete:
                (self.close if self.response_started else self.fail)()
            self.scope = {}  # breaks the reference cycle with the functions in it

    async def _receive_message(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": b"".join(body), "more_body": False}
        if not self.response_complete:
            self._disconnection = asyncio.get_running_loop().create_future()
            await self._disconnection
        return {"type": "http.disconnect"}

    async def _send_message(self, message: Message) -> None:
        if self._writable is not None:
            await self._writable
        if self.response_complete:
            return
        if message["type"] == "http.response.start":
            self._response_head = self._head_of(message["status"], message["headers"])
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        self._write_body(body, is_last=is_last)
        if is_last:
            self._on_disconnect = None
        if is_last and self.keep_alive and not self._bytes_left:
            self.finish()
        elif is_last:
            self.close()

    def _head_of(self, status: int, fields: Sequence[Field]) -> bytes:
        length = next((value for name, value in fields if name.lower() == b"content-length"), None)
        if length is not None:
            self._bytes_left = int(length)
            framing_lines = b""
        else:
            self._bytes_left = 0 if status in _WITHOUT_BODY else None
            framing_lines = b"" if status in _WITHOUT_BODY else responses.CHUNKED
        self.keep_alive = self.keep_alive and not self._connection.ending
        return responses.head_of_fields(status, fields, framing_lines + (b"" if self.keep_alive else responses.CLOSE))

    def _write_body(self, body: bytes | memoryview[Any], *, is_last: bool) -> None:
        """Write a part of the body. Raises ValueError if the body is longer than the response's head says."""
        if self._bytes_left is None:
            parts = [responses.chunk(bytes(body)) if body else b"", responses.END_OF_STREAM if is_last else b""]
        else:
            self._bytes_left -= len(body)
            if self._bytes_left < 0:
                raise ValueError("the body of the response is longer than its Content-Length")
            parts = [bytes(body)]
        head, self._response_head = self._response_head, b""
        self.response_started = True
        self.write(b"".join((head, *parts)))
