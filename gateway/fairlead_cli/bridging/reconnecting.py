"""HTTP transport of `fairlead bridge` that survives restarts of the gateway.

The MCP SDK, which uses this transport, sends the id of the session that it opened with every request. When the gateway
no longer has that session (404), the transport opens a new session by repeating the client's `initialize`, repeats the
failed request in the new session, and from then on replaces the session id in the SDK's requests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import anyio
import httpx2

from fairlead_cli.wording import credential_advice, start_advice, with_advice
from fairlead_mcp.methods import METHODS

SESSION_ID: Final = "mcp-session-id"
LAST_EVENT_ID: Final = "last-event-id"
MAX_ANSWER: Final = 64 << 20
"""Bytes of one JSON response, and of one event of a stream. A stream as a whole has no limit."""
MAX_REFUSAL: Final = 64 << 10
STREAM_SECONDS: Final = 300.0
"""Silence after which the stream of notifications is reopened, because a connection may be cut without a trace."""
CONNECT_SECONDS: Final = 10.0
PAUSES: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts to connect; the last pause repeats."""
UNREACHABLE: Final = -32000
"""JSON-RPC code of the bridge's own errors, from the range for implementation-defined server errors."""
_EVENTS: Final = "text/event-stream"


@dataclass
class BridgeSession:
    """The client's session: its `initialize`, the id that the SDK uses, and the id that the gateway currently uses."""

    url: httpx2.URL
    initialize_body: bytes
    """Body of the client's `initialize`."""
    headers: httpx2.Headers
    """Headers of the client's `initialize`."""
    sdk_id: str
    """Session id from the first response to `initialize`. The SDK sends it in all requests."""
    gateway_id: str
    """Session id that the gateway currently has."""


class ReconnectingTransport(httpx2.AsyncBaseTransport):
    """HTTP transport for the requests of one client, which replaces lost sessions and waits while the gateway restarts.

    While the gateway cannot be reached, a request is retried for `patience` seconds, and the stream of notifications is
    retried for ever. `remark` prints a line for the user. `on_reconnect` is called after a new session or a new stream
    of notifications was opened, because notifications may have been missed in between.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        patience: float,
        remark: Callable[[str], None],
        on_reconnect: Callable[[], None],
    ) -> None:
        self._client = client
        self._patience = patience
        self._remark = remark
        self._on_reconnect = on_reconnect
        self._session: BridgeSession | None = None
        self._renewal_lock = anyio.Lock()
        self._is_unreachable = False
        """Whether the last attempt to connect to the gateway failed."""
        self._streams = 0
        """Number of notification streams opened so far."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The gateway's response. HTTP errors and connection errors become JSON-RPC errors."""
        body = await request.aread()
        method = _method(body) if request.method == "POST" else ""
        try:
            answer = await self._send(request, body, method)
            if self._is_lost(request, answer) and (session := self._session):
                await answer.aclose()
                if request.method == "DELETE":
                    return httpx2.Response(204)
                await self._renew(session, session.gateway_id)
                answer = await self._send(request, body, method)
        except httpx2.HTTPError as error:
            return self._failure(request, error)
        if answer.status_code >= 400:
            return await self._refusal(request, answer)
        if request.method == "GET":
            self._streams += 1
            if self._streams > 1 and LAST_EVENT_ID not in request.headers:
                self._on_reconnect()
        if method == "initialize" and (ident := answer.headers.get(SESSION_ID)):
            self._session = BridgeSession(request.url, body, request.headers.copy(), ident, ident)
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=_Body(answer))

    def _is_lost(self, request: httpx2.Request, answer: httpx2.Response) -> bool:
        """Whether the response shows that the gateway has lost the session: by status 404, or by 405 for the stream of
        notifications, if the session had such a stream before. A restarted gateway may accept calls in a lost session.
        """
        is_refused = answer.status_code == 405 and request.method == "GET" and self._streams > 0
        return SESSION_ID in request.headers and (answer.status_code == 404 or is_refused)

    async def _send(self, request: httpx2.Request, body: bytes, method: str) -> httpx2.Response:
        """Send the request. Repeat it while connecting fails, and once after a lost connection if that is safe."""
        is_stream, deadline = request.method == "GET", anyio.current_time() + self._patience
        repeatable, tries = _is_repeatable(request.method, method), 0
        while True:
            try:
                answer = await self._client.send(self._copy(request, body), stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                is_late = anyio.current_time() >= deadline and not is_stream
                if is_late or request.method == "DELETE":
                    raise
                if not self._is_unreachable:
                    self._is_unreachable = True
                    self._remark(f"cannot reach {request.url}: {_reason(error)}; trying again")
            except (httpx2.NetworkError, httpx2.RemoteProtocolError):
                if not repeatable or (tries and not is_stream):
                    raise
            else:
                if self._is_unreachable:
                    self._is_unreachable = False
                    self._remark(f"{request.url} is reachable again")
                return answer
            await anyio.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
            tries += 1

    def _copy(self, request: httpx2.Request, body: bytes) -> httpx2.Request:
        headers = request.headers.copy()
        if (session := self._session) is not None and headers.get(SESSION_ID) == session.sdk_id:
            headers[SESSION_ID] = session.gateway_id
        for name in ("host", "content-length"):
            headers.pop(name, None)
        headers["accept-encoding"] = "identity"  # this class parses responses to `initialize`
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=STREAM_SECONDS if request.method == "GET" else None, pool=None)
        return self._client.build_request(
            request.method, request.url, headers=headers, content=body or None, timeout=timeout
        )

    async def _renew(self, session: BridgeSession, lost_id: str) -> None:
        """Replace the session `lost_id` by a new one, unless that has happened already. Raises HTTPError."""
        async with self._renewal_lock:
            if session.gateway_id != lost_id:
                return
            initialize_request = httpx2.Request("POST", session.url, headers=session.headers)
            answer = await self._send(initialize_request, session.initialize_body, "initialize")
            async with _Body(answer) as response_body:
                reply = await response_body.reply()
            ident = answer.headers.get(SESSION_ID)
            if answer.status_code >= 400 or ident is None or "result" not in reply:
                problem = (
                    f"the gateway no longer has the session, and refused a new one with status {answer.status_code}"
                )
                raise httpx2.RemoteProtocolError(f"{problem}: restart the MCP client")
            session.gateway_id = ident
            version = str(reply["result"].get("protocolVersion", ""))
            notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
            headers = {**session.headers, SESSION_ID: ident, "mcp-protocol-version": version}
            initialized_request = httpx2.Request("POST", session.url, headers=headers)
            await (await self._send(initialized_request, notice, "notifications/initialized")).aclose()
        self._remark("the gateway had lost the session; a new one is open")
        self._on_reconnect()

    def _failure(self, request: httpx2.Request, error: httpx2.HTTPError) -> httpx2.Response:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            advice = start_advice(str(request.url), may_be_named=False)
            text = with_advice(f"cannot reach {request.url}: {_reason(error)}", advice)
        else:
            text = f"the connection to {request.url} broke, and the request may have been executed: {_reason(error)}"
        self._remark(text)
        return _problem(503, text)

    async def _refusal(self, request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        """Convert a response with an error status to a JSON-RPC error that names the URL. If the body already is a
        JSON-RPC error, the response is passed on unchanged.
        """
        async with _Body(answer) as response_body:
            data = await response_body.read_beginning(MAX_REFUSAL)
        if request.method != "POST":
            return httpx2.Response(answer.status_code, content=data)
        error = _message(data).get("error")
        if isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str):
            if answer.status_code not in (401, 403):
                headers = {"content-type": "application/json"}
                return httpx2.Response(answer.status_code, headers=headers, content=data)
            text = error["message"]
        else:
            text = f"{request.url} answered {answer.status_code} {answer.reason_phrase}".rstrip()
            if answer.status_code == 404 and not request.url.path.strip("/"):
                text += "; an MCP endpoint usually ends in /mcp"
        if answer.status_code in (401, 403):
            text = with_advice(text, credential_advice(self._client.headers))
        self._remark(text)
        return _problem(answer.status_code, text)


class _Body(httpx2.AsyncByteStream):
    """Body of a response. If the connection breaks, the body ends without an error, and the SDK notices that the
    message is incomplete or the stream has ended.
    """

    def __init__(self, answer: httpx2.Response) -> None:
        self._answer = answer
        self._bounded = not answer.headers.get("content-type", "").startswith(_EVENTS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in self._answer.aiter_raw():
                size += len(piece)
                if self._bounded and size > MAX_ANSWER:
                    return
                yield piece
        except httpx2.HTTPError:
            return

    async def read_beginning(self, min_bytes: int) -> bytes:
        """The beginning of the body: more than `min_bytes` bytes, or all of it."""
        data = bytearray()
        async for piece in self:
            data += piece
            if len(data) > min_bytes:
                break
        return bytes(data)

    async def reply(self) -> dict[str, Any]:
        """The JSON-RPC response in the body, as plain JSON or as an event; an empty object if there is none."""
        if self._bounded:
            return _message(await self.read_beginning(MAX_ANSWER))
        try:
            async for event in httpx2.EventSource(self._answer, max_event_size=MAX_ANSWER):
                message = _message(event.data)
                if "result" in message or "error" in message:
                    return message  # the stream may stay open
        except httpx2.HTTPError:
            return {}
        return {}

    async def aclose(self) -> None:
        await self._answer.aclose()


def _problem(status: int, text: str) -> httpx2.Response:
    """A JSON-RPC error, to which the SDK's transport adds the id of the request."""
    error = {"code": UNREACHABLE, "message": text}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error})


def _message(data: bytes | str) -> dict[str, Any]:
    """The JSON object in `data`; empty if `data` is not a JSON object."""
    try:
        decoded = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _method(body: bytes) -> str:
    message = json.loads(body)  # the SDK wrote the body
    return str(message.get("method", "")) if isinstance(message, dict) and "id" in message else ""


def _is_repeatable(verb: str, method: str) -> bool:
    """Whether a request may be repeated although the server may have received it."""
    if verb == "GET" or method in ("initialize", "ping", "server/discover") or method.endswith("/list"):
        return True
    return method in METHODS and METHODS[method].idempotent


def _reason(error: httpx2.HTTPError) -> str:
    if _is_refused(error):
        return "the connection was refused"
    return str(error) or type(error).__name__


def _is_refused(error: BaseException | None) -> bool:
    """Whether an error was caused by a refused connection. Its own message is "All connection attempts failed"."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        causes = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        error = causes[0] if causes else error.__cause__ or error.__context__
    return error is not None
