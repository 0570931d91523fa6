"""Calls that the gateway itself makes, for REST: the path of a client's call, without HTTP around it.

It decides nothing and records nothing: `calls.path.dispatch` does, so that each call has the same refusals, bounds and
metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.path.dispatch import CALL, Dispatcher
from fairlead_gateway.calls.path.own_tools import OwnToolCalls
from fairlead_gateway.calls.translation.errors import TOO_DEEP
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.meta_tools import EXECUTE_TOOL, READ_RESULT
from fairlead_gateway.core.request import Exchange, Headers, McpRequest, agent_of
from fairlead_gateway.limits.buffers import AnswerBuffers, Holding
from fairlead_gateway.policy.view import View
from fairlead_mcp import jsonrpc
from fairlead_mcp.http.answer import Carrier
from fairlead_mcp.http.exchange import Arrival
from fairlead_tools import refusals
from fairlead_tools.refusal import INVALID_ARGUMENTS, RESULT_TOO_LARGE, UPSTREAM_ERROR, Refusal

_ID: Final = b"1"
_NO_ROOM: Final = (
    "The call was made, and its result dropped: with other results for this caller it is more than the gateway keeps. "
    "Make fewer calls at once, or ask for less"
)


class Unknown(msgspec.Struct, frozen=True):
    """Answer where the view shows no tool of that name; `message` is that of an MCP client's error -32602."""

    message: str


class Origin(msgspec.Struct, frozen=True):
    """Sender of the request that a call is made for."""

    address: str = ""
    """IP address of the client."""
    headers: Headers = {}
    """As of `endpoint.inbound`; its trace is all that is read of them."""
    identity: Identity = ANONYMOUS
    """Principal of the request."""


class _Captured(Exchange):
    """Exchange that keeps the answer; progress is dropped."""

    def __init__(self, origin: Origin, tier: str | None, buffers: AnswerBuffers) -> None:
        super().__init__(origin.headers, origin.identity, tier)
        self._buffers = buffers
        self._address = origin.address
        self.body: bytes = b""

    @property
    def address(self) -> str:
        return self._address

    @property
    def gone(self) -> bool:
        """False: a caller that gives up cancels the task, and still gets an answer."""
        return False

    @property
    def congested(self) -> bool:
        return False

    def when_writable(self, go_on: Callable[[], None]) -> None:
        go_on()

    def notify(self, message: bytes) -> bool:
        return False

    def pause(self) -> None:
        """Nothing to do: the caller waits anyway."""

    def arrival(self, source: Carrier) -> Arrival:
        return self._buffers.arrival(agent_of(self), source)

    def answer(self, status: int, *body: bytes | Raw) -> None:
        self.body = b"".join(body)

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        self.body = jsonrpc.result(ident, result)


class DirectCall(NamedTuple):
    """A call of a tool from within the gateway."""

    name: str
    """As the view shows it."""
    arguments: bytes
    """Raw JSON object."""
    timeout: float | None = None
    """Seconds, which can only shorten what the tool has."""
    retries: int | None = None
    """Attempts after the first, at most as many as the server allows where it says so."""
    result_tokens: int | None = None
    """Tokens that the result may have."""
    recording: str | None = None
    """Session that the result is kept in."""


class Caller:
    """Maker of calls from within the gateway."""

    def __init__(self, dispatcher: Dispatcher, own_tools: OwnToolCalls, buffers: AnswerBuffers | None = None) -> None:
        self._dispatcher = dispatcher
        self._own_tools = own_tools
        self._buffers = AnswerBuffers() if buffers is None else buffers

    def holding(self, origin: Origin) -> Holding:
        """Account of the bytes of one request's results until its answer is written."""
        return self._buffers.holding(agent_of(_Captured(origin, None, self._buffers)))

    async def call(
        self, origin: Origin, view: View, wanted: DirectCall, holding: Holding | None = None
    ) -> Raw | Unknown:
        """Call a tool that `view` shows, or `read_result`, on behalf of `origin`; its raw result in the form of
        2025-11-25, but with structured content of any type. A refusal is a result too. `holding` counts the result,
        which is refused where it has no room. Raises nothing but CancelledError.
        """
        name = wanted.name
        request = _request(name, wanted.arguments)
        request.result_tokens = wanted.result_tokens
        request.recording = wanted.recording
        request.any_structured = True
        if wanted.recording is not None:
            self._dispatcher.context.metrics.meta_call(EXECUTE_TOOL)
        captured = _Captured(origin, view.tier, self._buffers)
        route = self._dispatcher.resolve(view, request)
        if isinstance(route, Rejection):
            if name == READ_RESULT:
                return self._hold(await self._own_tools.answer(captured, request, name, view.tier), holding)
            self._dispatcher.record_unresolved(captured, request, route)
            return Unknown(route.message)
        if wanted.timeout is not None:
            route = route.within(wanted.timeout)
        if wanted.retries is not None:
            allowed = route.server.catalog.limits.retries
            route = route.with_retries(wanted.retries if allowed is None else min(wanted.retries, allowed))
        await self._dispatcher.run(captured, route, request)
        try:
            response = jsonrpc.decode_response(captured.body)
        except RecursionError:  # around the result is an object more than its server had, and a coroutine has frames
            return Raw(refusals.result(Refusal(UPSTREAM_ERROR, TOO_DEEP)))
        if response.result is not UNSET:
            return self._hold(response.result, holding)
        message = response.error.message if response.error is not None else "Internal error"
        return Raw(refusals.result(Refusal(UPSTREAM_ERROR, message)))

    async def answer(
        self, origin: Origin, view: View, name: str, arguments: bytes, *, holding: Holding | None = None
    ) -> Raw:
        """Result of one of the gateway's own tools but `execute_tool`, as `call`, over what `view` shows."""
        captured = _Captured(origin, view.tier, self._buffers)
        return self._hold(await self._own_tools.answer(captured, _request(name, arguments), name, view.tier), holding)

    @staticmethod
    def _hold(result: bytes | Raw, holding: Holding | None) -> Raw:
        """The result, counted; a refusal where there is no room for it."""
        if holding is not None and not holding.keep(len(result)):
            return Raw(refusals.result(Refusal(RESULT_TOO_LARGE, _NO_ROOM)))
        return Raw(result)

    def unknown(self, origin: Origin, name: str, arguments: bytes, by: tuple[ServerKey, str, str] | None) -> None:
        """Count and audit a call that found no tool; `by`: server, tool and reason where a policy keeps it from the
        principal.
        """
        rejection = Rejection(200, jsonrpc.INVALID_PARAMS, f"Unknown tool: {name}")
        self._dispatcher.record_unresolved(
            _Captured(origin, None, self._buffers), _request(name, arguments), rejection, by
        )

    def record_refusal(self, origin: Origin, view: View, name: str) -> None:
        """Record a call of a known tool that was not made because its arguments cannot be read."""
        route = view.routes.get(name)
        if route is not None:
            route.recorder.record(0, INVALID_ARGUMENTS)
            captured = _Captured(origin, view.tier, self._buffers)
            self._dispatcher.unreadable(captured, route, INVALID_ARGUMENTS)


def _request(name: str, arguments: bytes) -> McpRequest:
    params = {"name": Raw(jsonrpc.encode(name)), "arguments": Raw(arguments)}
    return McpRequest(modern=False, method=CALL, id=_ID, params=params, session=None)
