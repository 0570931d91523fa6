"""MCP over Streamable HTTP: era negotiation, legacy sessions, streamed answers.

Each request is built from scratch, which is too slow for the tool calls of a gateway; those prepare their heads and use
`Pool` directly.

A positive answer to `server/discover` makes an endpoint modern; after any other *answer* `initialize` is tried. A
transport error is raised, as it says nothing about the era. A server that has lost the session (404, or 400 naming the
session) or has changed its era rejects a request without executing it; such a request is repeated once, after a new
negotiation.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.capabilities import for_method
from fairlead_mcp.eras import (
    H_METHOD,
    H_NAME,
    H_SESSION,
    H_VERSION,
    MODERN_VERSION,
    Client,
    Era,
    Negotiated,
    header_value,
    initialize_params,
    listen_params,
    modern_params,
    read_discover,
    read_initialize,
)
from fairlead_mcp.errors import (
    ConnectionLost,
    HandshakeRefused,
    HttpRefused,
    McpError,
    RpcError,
    Timeout,
    TransportError,
)
from fairlead_mcp.http import resuming
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.pool import NEVER, Pool
from fairlead_mcp.http.reading import read_answer, refusal
from fairlead_mcp.http.target import Target, with_body
from fairlead_mcp.messages import Message
from fairlead_mcp.methods import NAMED_MEMBER
from fairlead_mcp.multiplex import Offering

logger = logging.getLogger(__name__)

MAX_ANSWER: Final = 16 << 20
ADDRESSES: Final = (b"/", b"http://", b"https://")
"""How the address in an `endpoint` event of HTTP+SSE begins."""
BACKGROUND_SECONDS: Final = 2.0
"""Limit for messages that no caller waits for: cancellations, answers to the server, the end of a session."""
_RACE_RETRIES: Final = 4
"""Retries of one request after a kept-alive connection turned out to be closed."""
_NOT_THIS_ERA: Final = frozenset({jsonrpc.UNSUPPORTED_PROTOCOL_VERSION, jsonrpc.INVALID_REQUEST, -32000})
"""Codes of the errors with which servers reject a request of an era that they do not speak."""


class HttpChannel:
    """Channel to one server over a pool, which the caller has to close. `headers` (credentials) are sent with every
    request. Without an `offering` no client capability is declared.

    `connect` sets `negotiated` and, for legacy servers that use sessions, `session_id`. Deadlines are absolute, in the
    pool's clock.
    """

    def __init__(
        self,
        target: Target,
        pool: Pool,
        *,
        headers: Mapping[str, str] | None = None,
        on_notification: Callable[[Message], None] | None = None,
        offering: Offering | None = None,
    ) -> None:
        self._offering = offering
        self._capabilities = b"{}" if offering is None else offering.capabilities
        self.negotiated: Negotiated | None = None
        self.session_id: bytes | None = None
        self._pool = pool
        self._client = Client()
        self.redirected = False
        """Whether the server redirected to the same URL with a trailing slash, or without it."""
        self._headers = headers
        self._set_target(target)
        self._on_notification = on_notification
        self._ids = itertools.count(1)
        self._negotiating = asyncio.Lock()
        self._background_tasks = TaskSet()

    def __repr__(self) -> str:
        era = self.negotiated.protocol_version if self.negotiated else "not negotiated"
        return f"<HttpChannel {self._target.authority.decode()} {era}>"

    def _set_target(self, target: Target) -> None:
        self._target = target
        self._head = target.head(headers=self._headers)
        self._delete_head = target.head(b"DELETE", self._headers)
        self._get_head = target.head(b"GET", self._headers) + b"Accept: text/event-stream\r\n"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about workarounds that the transport applies to reach the server."""
        path = jsonrpc.excerpt(self._target.path.partition(b"?")[0])
        return (f"the server redirects to {path}: put that path into its url",) if self.redirected else ()

    async def connect(self, deadline: float) -> Negotiated:
        """Negotiate on the first call; later calls return the result. Raises McpError."""
        return await self._negotiate(None, deadline)

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, extension: str = "") -> Raw:
        """Send a request, with the `_meta` that the modern era requires, and return the raw result. Raises McpError.

        `extension` is an extension to declare to a modern server in addition to the client's capabilities.
        """
        negotiated = self.negotiated or await self.connect(deadline)
        had_session = self.session_id is not None
        try:
            return await self._request(method, params, deadline, negotiated, extension)
        except (RpcError, HttpRefused) as error:
            if not _forgot_session(error, negotiated, had_session):
                raise
            logger.info("%s: negotiating again (%s)", self._target.host, error)
        negotiated = await self._negotiate(negotiated, deadline)
        return await self._request(method, params, deadline, negotiated, extension)

    async def notify(self, method: str, params: bytes | None, *, deadline: float) -> None:
        """Send a notification; only legacy servers accept notifications. Raises McpError."""
        await self._post_without_result(jsonrpc.notification(method, params), method, deadline)

    async def listen(self, deadline: float) -> None:
        """Receive notifications of changed lists until the stream ends; see `McpSession.listen`. Raises McpError."""
        negotiated = self.negotiated or await self.connect(deadline)
        ident = self._next_id()
        if negotiated.era is Era.MODERN:
            method, params = (
                "subscriptions/listen",
                modern_params(listen_params(negotiated.announced_lists), self._client),
            )
            body = jsonrpc.request(ident, method, params)
            data = with_body(self._head + self._modern_lines(method, params), body)
        else:
            lines = self._legacy_lines(negotiated.protocol_version)
            data = b"%b%b\r\n" % (self._get_head, lines)
        answer = await self._pool.exchange(
            data, deadline=NEVER, max_bytes=MAX_ANSWER, on_event=lambda event: self._on_event(event, ident)
        )
        if answer.streamed and not answer.body:
            raise ConnectionLost("the server ended the stream", sent=True, received=True)
        read_answer(answer, ident)
        raise ConnectionLost("the server ended the subscription", sent=True, received=True)

    async def aclose(self) -> None:
        """Cancel messages that are being sent and end a legacy session. Bounded in time; raises nothing."""
        await self._background_tasks.cancel()
        if self.session_id is not None:
            head = self._delete_head + self._era_lines("", None)
            self.session_id = None
            try:
                await self._pool.exchange(head + b"\r\n", deadline=self._pool.clock() + BACKGROUND_SECONDS)
            except McpError as error:
                logger.debug("%s: the session was not ended (%s)", self._target.host, error)
        self.negotiated = None

    # Negotiation

    async def _negotiate(self, stale: Negotiated | None, deadline: float) -> Negotiated:
        """Negotiate, unless another request has replaced `stale` meanwhile."""
        async with self._negotiating:
            if self.negotiated is not None and self.negotiated is not stale:
                return self.negotiated
            self.session_id = None
            self.negotiated = None
            negotiated = await self._discover(deadline) or await self._initialize(deadline)
            self.negotiated = negotiated
            return negotiated

    async def _discover(self, deadline: float) -> Negotiated | None:
        for _ in range(2):
            ident = self._next_id()
            body = jsonrpc.request(ident, "server/discover", modern_params(None, self._client, self._capabilities))
            try:
                answer = await self._post(self._modern_lines("server/discover", None), body, ident, deadline)
                return read_discover(read_answer(answer, ident))
            except TransportError:
                raise
            except McpError as error:
                logger.debug("%s does not support the modern era of MCP: %s", self._target.host, error.reason)
                if not (isinstance(error, RpcError) and speaks_modern(error)):
                    return None
        return None

    async def _initialize(self, deadline: float) -> Negotiated:
        ident = self._next_id()
        body = jsonrpc.request(ident, "initialize", initialize_params(self._client, self._capabilities))
        answer = await self._post(b"", body, ident, deadline)
        if answer.streamed and answer.body.startswith(ADDRESSES):  # an old server that opens a stream for POST too
            raise HttpRefused("the server answers with an event stream of HTTP+SSE", status=405)
        try:
            result = read_answer(answer, ident)
        except RpcError as error:
            raise HandshakeRefused.of(error) from error
        negotiated = read_initialize(result)
        self.session_id = answer.headers.get(b"mcp-session-id")
        lines = self._legacy_lines(negotiated.protocol_version)
        note = jsonrpc.notification("notifications/initialized")
        note_answer = await self._post(lines, note, b"null", deadline)
        if note_answer.status >= 300:
            raise refusal(note_answer)
        return negotiated

    # Requests

    async def _request(
        self, method: str, params: bytes | Raw | None, deadline: float, negotiated: Negotiated, extension: str
    ) -> Raw:
        ident = self._next_id()
        modern = negotiated.era is Era.MODERN
        if modern:
            params = modern_params(params, self._client, for_method(self._capabilities, method, extension))
        body = jsonrpc.request(ident, method, params)
        lines = self._modern_lines(method, params) if modern else self._legacy_lines(negotiated.protocol_version)
        try:
            answer = await self._post(lines, body, ident, deadline, repeatable=method != "tools/call")
        except (asyncio.CancelledError, Timeout):
            if not modern:  # for a modern server closing the connection is the cancellation
                note = jsonrpc.notification("notifications/cancelled", b'{"requestId":%b}' % ident)
                self._spawn(self._send_in_background(note, "notifications/cancelled"))
            raise
        return read_answer(answer, ident)

    async def _post(
        self, lines: bytes, body: bytes, ident: bytes, deadline: float, *, repeatable: bool = True
    ) -> Answer:
        """Post a message. One redirect per channel is followed, if it only adds or removes a trailing slash."""
        target = self._target
        answer = await self._post_to(lines, body, ident, deadline, repeatable=repeatable)
        new_target = target.slash_redirect(answer.status, answer.headers.get(b"location", b""))
        if new_target is None or (self.redirected and new_target != self._target):
            return answer
        if not self.redirected:
            self.redirected = True
            self._set_target(new_target)
        return await self._post_to(lines, body, ident, deadline, repeatable=repeatable)

    async def _post_to(self, lines: bytes, body: bytes, ident: bytes, deadline: float, *, repeatable: bool) -> Answer:
        def on_event(data: bytes) -> bool:
            return self._on_event(data, ident)

        async def once() -> Answer:
            if self.negotiated is None or self.negotiated.era is Era.MODERN:
                return await self._pool.exchange(data, deadline=deadline, max_bytes=MAX_ANSWER, on_event=on_event)
            reader = resuming.AnswerReader(deadline, MAX_ANSWER, on_event)
            return await resuming.exchange_resumably(self._pool, data, self._get_head + lines, reader)

        data = with_body(self._head + lines, body)
        for _ in range(_RACE_RETRIES if repeatable else 0):
            try:
                return await once()
            except ConnectionLost as error:
                if not error.keep_alive_race:
                    raise
        return await once()

    def _on_event(self, data: bytes, ident: bytes) -> bool:
        try:
            message = jsonrpc.decode_message(data)
        except jsonrpc.UNREADABLE:
            return True  # `read_answer` raises the error for it
        if message.is_request:
            self._on_server_request(message)
        elif not message.is_response:
            if self._on_notification is not None:
                self._on_notification(message)
        else:
            return isinstance(message.id, Raw) and bytes(message.id) in (ident, b"null")
        return False

    def _on_server_request(self, message: Message) -> None:
        if self._offering is None:
            self._spawn(self._send_in_background(jsonrpc.reply_to_server(message), ""))
        else:
            self._offering.on_request(message, lambda body: self._spawn(self._send_in_background(body, "")))

    def _era_lines(self, method: str, params: bytes | Raw | None) -> bytes:
        if self.negotiated is None:
            return b""
        if self.negotiated.era is Era.MODERN:
            return self._modern_lines(method, params)
        return self._legacy_lines(self.negotiated.protocol_version)

    def _legacy_lines(self, version: str) -> bytes:
        lines = b"%b: %b\r\n" % (H_VERSION, version.encode())
        if self.session_id is not None:
            lines += b"%b: %b\r\n" % (H_SESSION, self.session_id)
        return lines

    def _modern_lines(self, method: str, params: bytes | Raw | None) -> bytes:
        version = MODERN_VERSION.encode()
        lines = b"%b: %b\r\n%b: %b\r\n" % (H_VERSION, version, H_METHOD, header_value(method))
        if method in NAMED_MEMBER and params is not None:
            name = jsonrpc.decode_object(params).get(NAMED_MEMBER[method])
            if name is not None:
                lines += b"%b: %b\r\n" % (H_NAME, header_value(jsonrpc.decode_text(name)))
        return lines

    def _next_id(self) -> bytes:
        return b"%d" % next(self._ids)

    # Beside requests

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._background_tasks.start(work, f"message to {self._target.host}")

    async def _send_in_background(self, body: bytes, method: str) -> None:
        try:
            await self._post_without_result(body, method, self._pool.clock() + BACKGROUND_SECONDS)
        except McpError as error:
            logger.debug("%s: %s was not accepted (%s)", self._target.host, method or "an answer", error)

    async def _post_without_result(self, body: bytes, method: str, deadline: float) -> None:
        answer = await self._post(self._era_lines(method, None), body, b"null", deadline)
        if answer.status >= 300:
            raise refusal(answer)


def speaks_modern(error: RpcError) -> bool:
    """Whether an error about an unsupported version (-32022) lists the modern version as supported, so that a retry
    makes sense.
    """
    if error.code != jsonrpc.UNSUPPORTED_PROTOCOL_VERSION or error.data is None:
        return False
    try:
        return MODERN_VERSION in _decode_supported(error.data).supported
    except jsonrpc.UNREADABLE:
        return False


class _Supported(msgspec.Struct):
    """`data` of the error UnsupportedProtocolVersion (-32022)."""

    supported: list[str] = []


_decode_supported = msgspec.json.Decoder(_Supported).decode


def _forgot_session(error: RpcError | HttpRefused, negotiated: Negotiated, had_session: bool) -> bool:
    """Whether the server did not execute the request because it has lost the session or changed its era."""
    if isinstance(error, RpcError) and error.code == jsonrpc.UNSUPPORTED_PROTOCOL_VERSION:
        return True
    if negotiated.era is Era.MODERN:
        if isinstance(error, RpcError):
            return error.status >= 400 and error.code in _NOT_THIS_ERA
        return error.status in (400, 404, 405, 406)
    if not had_session:
        return False
    unknown_method = isinstance(error, RpcError) and error.code == jsonrpc.METHOD_NOT_FOUND
    return (error.status == 404 and not unknown_method) or (error.status == 400 and "session" in str(error).lower())
