"""The path of a tool call, from a classified request to the recorded answer.

Called by `endpoint.server`, one task per call. Straight-line on purpose: resolve, attempt, translate, record, reply.
It knows no HTTP and no documents; what it may call was decided when the view was built.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls import refusals, translate
from fairlead_gateway.calls.exchange import Exchange
from fairlead_gateway.calls.refusals import Refusal
from fairlead_gateway.endpoint.inbound import Rejection, Request
from fairlead_gateway.endpoint.replies import result_parts
from fairlead_gateway.selection.view import Route, View
from fairlead_gateway.telemetry import TOOL_ERROR, Book
from fairlead_gateway.upstream.base import Notify, Order
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import ConnectFailed, McpError, RpcError
from fairlead_mcp.jsonrpc import Message

log = logging.getLogger(__name__)

CALL: Final = "tools/call"
_OBJECT_OR_NULL: Final = (b"{", b"n")
_FOR_THE_CLIENT: Final = frozenset({jsonrpc.MISSING_CLIENT_CAPABILITY})
"""Errors of a modern server that its modern client can act on: passed on as they are."""


class Dispatcher:
    """Runs calls. One per gateway; `clock` is in seconds and the one that the upstreams' deadlines go by."""

    def __init__(
        self,
        book: Book,
        client: eras.Client,
        server_info: bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book = book
        self._client = client
        self._server_info = server_info
        self._clock = clock
        self._unknown = book.recorder(CALL)
        self._cancellable: dict[tuple[bytes, bytes], asyncio.Task[None]] = {}

    def resolve(self, view: View, request: Request) -> Route | Rejection:
        """The tool that a request means, as far as the view shows it."""
        params = request.params
        try:
            name = jsonrpc.decode_text(params["name"])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return _invalid(request, "params.name must be a string")
        if "arguments" in params and bytes(params["arguments"])[:1] not in _OBJECT_OR_NULL:
            return _invalid(request, "params.arguments must be an object")
        route = view.routes.get(name)
        if route is None:
            self._unknown.record(0, str(jsonrpc.INVALID_PARAMS))
            return _invalid(request, f"Unknown tool: {name}")
        return route

    def cancel(self, session: bytes | None, request_id: bytes) -> None:
        """A legacy client gives a call up; nothing happens where there is none of that session and id."""
        task = self._cancellable.get((session, request_id)) if session is not None else None
        if task is not None:
            task.cancel()

    async def run(self, exchange: Exchange, route: Route, request: Request) -> None:
        """Make the call and answer it. Raises nothing but CancelledError, when the client is gone."""
        started = self._clock()
        key = task = None
        if request.session is not None:
            key, task = (request.session, request.id), asyncio.current_task()
            if task is not None:
                self._cancellable[key] = task
        self._book.in_flight += 1
        error_type = refusals.CANCELLED
        try:
            answer = await self._answer(exchange, route, request, started)
            error_type = answer.error_type
            exchange.answer(answer.status, *answer.body)
        finally:
            self._book.in_flight -= 1
            if key is not None and self._cancellable.get(key) is task:
                del self._cancellable[key]
            route.recorder.record(int((self._clock() - started) * 1e9), error_type)

    async def _answer(self, exchange: Exchange, route: Route, request: Request, started: float) -> _Answer:
        try:
            raw = await self._attempt(exchange, route, request, started)
            outcome = translate.result(
                raw, from_modern=route.upstream.modern, to_modern=request.modern, server_info=route.server_info
            )
            return _Answer(200, result_parts(request.id, outcome.result), TOOL_ERROR if outcome.is_error else "")
        except McpError as error:
            if request.modern and isinstance(error, RpcError) and error.code in _FOR_THE_CLIENT:
                return _passed_on(request, error)
            return self._refused(request, refusals.refusal_for(error))
        except asyncio.CancelledError:
            if exchange.gone:
                raise
            return self._refused(request, Refusal(refusals.CANCELLED, "The call was cancelled"))
        except Exception:
            log.exception("A call to %s of %s failed in the gateway itself", route.name, route.server.key)
            body = jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "Internal error")
            return _Answer(200, (body,), str(jsonrpc.INTERNAL_ERROR))

    async def _attempt(self, exchange: Exchange, route: Route, request: Request, started: float) -> Raw:
        if route.offline:
            raise ConnectFailed(f"the server {route.server.key} is offline")
        upstream = route.upstream
        ident = upstream.next_id()
        token = translate.progress_token(request.params)
        params = translate.params(
            request.params,
            route.name_raw,
            from_modern=request.modern,
            to_modern=upstream.modern,
            token=None if token is None else ident,
            client=self._client,
        )
        notify = None if token is None else _forwarder(exchange, ours=ident, clients=token)
        return await upstream.call(
            Order(ident, params, route.name_header, started + route.timeout, route.max_bytes, notify)
        )

    def _refused(self, request: Request, refusal: Refusal) -> _Answer:
        """A refusal as a result in the client's era; the gateway speaks for itself in it."""
        raw = refusals.result(refusal)
        outcome = translate.result(raw, from_modern=False, to_modern=request.modern, server_info=self._server_info)
        return _Answer(200, result_parts(request.id, outcome.result), refusal.code)


class _Answer(msgspec.Struct, frozen=True):
    status: int
    body: tuple[bytes | Raw, ...]
    error_type: str


def _passed_on(request: Request, error: RpcError) -> _Answer:
    body = jsonrpc.error(request.id, error.code, error.message, error.data)
    return _Answer(eras.status_for(error.code), (body,), str(error.code))


def _forwarder(exchange: Exchange, *, ours: bytes, clients: bytes) -> Notify:
    """Passes progress on under the client's own token. Log messages belong to no call and are dropped."""

    def forward(message: Message) -> None:
        if message.method == "notifications/progress" and isinstance(message.params, Raw):
            progress = translate.progress(message.params, ours=ours, clients=clients)
            if progress is not None:
                exchange.notify(progress)

    return forward


def _invalid(request: Request, message: str) -> Rejection:
    return Rejection(400 if request.modern else 200, jsonrpc.INVALID_PARAMS, message, request.id)
