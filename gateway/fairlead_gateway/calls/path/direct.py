"""Tool calls from within the gateway, for REST: the same path as a client's call, without the HTTP exchange.

`calls.path.dispatch` checks and records these calls, so they have the same refusals, limits and metrics as all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import UNSET, Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.path.call import ToolCall
from fairlead_gateway.calls.path.dispatch import CALL, Dispatcher
from fairlead_gateway.calls.path.own_tools import OwnToolCalls
from fairlead_gateway.calls.translation.errors import TOO_DEEP
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.meta_tools import EXECUTE_TOOL, READ_RESULT
from fairlead_gateway.core.request import Exchange, Headers, McpRequest, agent_name, agent_of
from fairlead_gateway.core.route import Route
from fairlead_gateway.limits.buffers import AnswerBuffers, ArrivingAnswer, HeldResponses
from fairlead_gateway.policy.view import View
from fairlead_mcp import jsonrpc
from fairlead_mcp.http.answer import Carrier
from fairlead_mcp.http.exchange import Arrival
from fairlead_tools import refusals
from fairlead_tools.refusal import INVALID_ARGUMENTS, RESULT_TOO_LARGE, UPSTREAM_ERROR, Refusal

_ID: Final = b"1"
_NO_HEADERS: Final[Headers] = {}
_NO_ROOM: Final = (
    "The call was made, but its result was dropped: the results for this caller exceed the gateway's memory limit. "
    "Make fewer calls at once, or request smaller results"
)


class UnknownToolAnswer:
    """Answer to a call of an unknown tool."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message
        """Message of the JSON-RPC error -32602 that an MCP client would get."""


class Origin:
    """Client on whose behalf a call is made. Never modified."""

    __slots__ = ("address", "headers", "identity")

    def __init__(self, address: str = "", headers: Headers = _NO_HEADERS, identity: Identity = ANONYMOUS) -> None:
        self.address = address
        """IP address of the client."""
        self.headers = headers
        """Headers of the client's request, with names in lower case; only the trace context is read."""
        self.identity = identity
        """Principal of the client's request."""


class _CapturingExchange(Exchange):
    """Exchange that stores the result, and drops progress and all other messages to the client."""

    __slots__ = ("_address", "_arrival", "_buffers", "_held_responses", "answered_at", "result")

    def __init__(
        self, origin: Origin, tier: str | None, buffers: AnswerBuffers, held_responses: HeldResponses | None = None
    ) -> None:
        super().__init__(origin.headers, origin.identity, tier)
        self._buffers = buffers
        self._address = origin.address
        self._held_responses = held_responses
        self._arrival: ArrivingAnswer | None = None
        """The server's response that arrived last; None for small responses."""
        self.result = b""
        """Raw result, which may be a refusal; empty until the call is answered."""
        self.answered_at = 0.0
        """Time of the answer by `time.monotonic`."""

    @property
    def address(self) -> str:
        return self._address

    @property
    def gone(self) -> bool:
        """Always False: the caller ends the call by cancelling the asyncio task that awaits it."""
        return False

    @property
    def congested(self) -> bool:
        return False

    def when_writable(self, resume: Callable[[], None]) -> None:
        resume()

    def notify(self, message: bytes) -> bool:
        return False

    def pause(self) -> None:
        """No-op, as there is no stream to pause."""

    def arrival(self, source: Carrier) -> Arrival:
        self._arrival = arrival = self._buffers.arrival(agent_of(self), source)
        return arrival

    def answer(self, status: int, *body: bytes | Raw) -> None:
        self.answered_at = time.monotonic()
        self.result = _result_of_response(b"".join(body))

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        self.answered_at = time.monotonic()
        if self._arrival is not None:  # read to its end only after this: without `hand_over` it would count twice
            self._arrival.hand_over()
        self.result = _count_bytes(result, self._held_responses)


class DirectCall(NamedTuple):
    """A tool call from within the gateway."""

    name: str
    """Name as the view exposes it."""
    arguments: bytes
    """Arguments as a raw JSON object."""
    timeout: float | None = None
    """Timeout in seconds, which can only shorten the tool's timeout."""
    retries: int | None = None
    """Attempts after the first, limited to the `retries` of the server's catalog, if the catalog sets them."""
    result_tokens: int | None = None
    """Limit on the tokens of the result; None for the limit of the tool and its policies."""
    recording: str | None = None
    """Id of the context session in which the result is stored; None to store nothing."""


class StartedCall:
    """A tool call that runs, or has ended."""

    __slots__ = ("_call", "_dispatcher", "_exchange", "_started_at")

    def __init__(self, dispatcher: Dispatcher, exchange: _CapturingExchange, call: ToolCall, started_at: float) -> None:
        self._dispatcher = dispatcher
        self._exchange = exchange
        self._call = call
        self._started_at = started_at

    async def result(self) -> bytes:
        """Wait for the raw result, as `Caller.call` returns it. If the waiting task is cancelled, the call is too."""
        await self._dispatcher.wait(self._call)
        return self._exchange.result

    @property
    def seconds(self) -> float:
        """Duration of a call that has ended."""
        return self._exchange.answered_at - self._started_at

    def cancel(self) -> None:
        """Cancel the call; no-op if it has ended."""
        self._call.cancel()


class Caller:
    """Makes tool calls from within the gateway."""

    def __init__(self, dispatcher: Dispatcher, own_tools: OwnToolCalls, buffers: AnswerBuffers | None = None) -> None:
        self._dispatcher = dispatcher
        self._own_tools = own_tools
        self._buffers = AnswerBuffers() if buffers is None else buffers

    def hold_responses(self, origin: Origin) -> HeldResponses:
        """Counter of the bytes in the results of one REST request; a context that ends when the response is written."""
        return self._buffers.hold_responses(agent_name(origin.identity, origin.address))

    def start(
        self, origin: Origin, view: View, call: DirectCall, held_responses: HeldResponses | None = None
    ) -> StartedCall | UnknownToolAnswer:
        """Start a call of a tool that `view` shows, on behalf of `origin`. Its result has to be awaited, or the call
        cancelled.
        """
        request = self._request(call)
        return self._start(origin, view, call, held_responses, request, self._dispatcher.resolve(view, request))

    async def call(
        self, origin: Origin, view: View, call: DirectCall, held_responses: HeldResponses | None = None
    ) -> Raw | UnknownToolAnswer:
        """Call a tool that `view` shows, or `read_result`, on behalf of `origin`.

        Returns the raw result in the form of 2025-11-25, but with structured content of any type; a refusal is a result
        too. `held_responses` counts the result's bytes; a result for which it has no room is replaced by a refusal.
        Raises only CancelledError.
        """
        request = self._request(call)
        route = self._dispatcher.resolve(view, request)
        if isinstance(route, Rejection) and call.name == READ_RESULT:
            exchange = self._exchange(origin, view)
            return Raw(
                _count_bytes(await self._own_tools.answer(exchange, request, call.name, view.tier), held_responses)
            )
        started = self._start(origin, view, call, held_responses, request, route)
        return started if isinstance(started, UnknownToolAnswer) else Raw(await started.result())

    async def answer(
        self, origin: Origin, view: View, name: str, arguments: bytes, *, held_responses: HeldResponses | None = None
    ) -> Raw:
        """Call one of the gateway's own tools, except `execute_tool`. Returns a result like `call`."""
        exchange = self._exchange(origin, view)
        result = await self._own_tools.answer(exchange, _request(name, arguments), name, view.tier)
        return Raw(_count_bytes(result, held_responses))

    def _request(self, call: DirectCall) -> McpRequest:
        if call.recording is not None:
            self._dispatcher.context.metrics.count_meta_call(EXECUTE_TOOL)
        request = _request(call.name, call.arguments)
        request.result_tokens = call.result_tokens
        request.context_session = call.recording
        request.any_structured = True
        return request

    def _start(
        self,
        origin: Origin,
        view: View,
        call: DirectCall,
        held_responses: HeldResponses | None,
        request: McpRequest,
        route: Route | Rejection,
    ) -> StartedCall | UnknownToolAnswer:
        started_at, exchange = time.monotonic(), self._exchange(origin, view, held_responses)
        if isinstance(route, Rejection):
            self._dispatcher.record_unresolved(exchange, request, route)
            return UnknownToolAnswer(route.message)
        if call.timeout is not None:
            route = route.with_time_limit(call.timeout)
        if call.retries is not None:
            catalog_retries = route.server.catalog.limits.retries
            route = route.with_retries(call.retries if catalog_retries is None else min(call.retries, catalog_retries))
        return StartedCall(self._dispatcher, exchange, self._dispatcher.start(exchange, route, request), started_at)

    def _exchange(self, origin: Origin, view: View, held_responses: HeldResponses | None = None) -> _CapturingExchange:
        return _CapturingExchange(origin, view.tier, self._buffers, held_responses)

    def record_unknown(
        self, origin: Origin, name: str, arguments: bytes, denied_tool: tuple[ServerKey, str, str] | None
    ) -> None:
        """Record a call of an unknown tool.

        `denied_tool` is the server, the tool and the reason if the tool exists and a policy hides it from the
        principal.
        """
        rejection = Rejection(200, jsonrpc.INVALID_PARAMS, f"Unknown tool: {name}")
        self._dispatcher.record_unresolved(
            _CapturingExchange(origin, None, self._buffers), _request(name, arguments), rejection, denied_tool
        )

    def record_refusal(self, origin: Origin, view: View, name: str) -> None:
        """Record a call that was not made because its arguments cannot be parsed."""
        route = view.routes.get(name)
        if route is not None:
            route.recorder.record(0, INVALID_ARGUMENTS)
            exchange = _CapturingExchange(origin, view.tier, self._buffers)
            self._dispatcher.record_unreadable(exchange, route, INVALID_ARGUMENTS)


def _count_bytes(result: bytes | Raw, held_responses: HeldResponses | None) -> bytes:
    """A copy of the result, whose bytes `held_responses` counts; a refusal if it has no room for them."""
    if held_responses is not None and not held_responses.add(len(result)):
        return refusals.result(Refusal(RESULT_TOO_LARGE, _NO_ROOM))
    return bytes(result)


def _result_of_response(response: bytes) -> bytes:
    """The result in a JSON-RPC response; a refusal for an error."""
    try:
        decoded = jsonrpc.decode_response(response)
    except RecursionError:
        return refusals.result(Refusal(UPSTREAM_ERROR, TOO_DEEP))
    if decoded.result is not UNSET:
        return bytes(decoded.result)
    message = decoded.error.message if decoded.error is not None else "Internal error"
    return refusals.result(Refusal(UPSTREAM_ERROR, message))


def _request(name: str, arguments: bytes) -> McpRequest:
    params = {"name": Raw(jsonrpc.encode(name)), "arguments": Raw(arguments)}
    request = McpRequest(modern=False, method=CALL, id=_ID, params=params, session=None)
    request.name = name
    return request
