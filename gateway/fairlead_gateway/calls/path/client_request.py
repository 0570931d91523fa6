"""The client's side of a request: who made it, how it is answered, refused and recorded. It ends exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from msgspec import Raw

from fairlead_api.logs import SPAN_ID, TRACE_ID
from fairlead_gateway.calls.path.attempts import GuardedRequest
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.path.recent import remember
from fairlead_gateway.calls.questions.input_required import features_of
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.calls.translation.errors import TOO_DEEP, is_for_the_client, rejection_for, rejection_of
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.exchange import Exchange, agent_of
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.limits.limiter import NO_LEASE, Lease
from fairlead_gateway.reports.outcomes import outcome_of_refusal
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, NotMcp, Timeout
from fairlead_mcp.escaping import escaped
from fairlead_tools import refusals
from fairlead_tools.refusal import Refusal

log = logging.getLogger(__name__)

T = TypeVar("T")

Body: TypeAlias = tuple[bytes | Raw, ...]
"""Parts of an answer."""


class ClientRequest(GuardedRequest):
    """Answers one exchange, with a result, a refusal or an error in the terms of the client's era."""

    __slots__ = ("denied", "exchange", "lease", "limit", "refusal", "request", "waiter")

    def __init__(self, context: CallContext, exchange: Exchange, route: Route, request: McpRequest) -> None:
        super().__init__(context, route, context.clock())
        self.exchange = exchange
        self.request = request
        self.denied = ""
        """Policy that does not allow its arguments."""
        self.limit = ""
        """Limit that refused it because there were too many calls."""
        self.refusal = ""
        """Why the gateway did not let it be answered by its server, as the client was told."""
        self.lease: Lease = NO_LEASE
        """Accounts that it is counted in until it ends."""
        self.waiter: asyncio.Future[None] | None = None
        """Resolved at its end, for a caller within the gateway."""

    def cancel(self) -> None:
        """Give the request up, for its client did or is gone. No-op when it is answered."""
        raise NotImplementedError

    def released(self) -> None:
        """Give back what the request holds beside its lease; called once, at its end."""

    @property
    def agent(self) -> str:
        return agent_of(self.exchange)

    @property
    def tier(self) -> str | None:
        """Latency tier of the client."""
        return self.exchange.tier

    @property
    def own_session(self) -> bytes | None:
        """Id of the client's session, where it was signed here: another may be anybody's."""
        request = self.request
        return request.session if request.opened is not None else None

    def capabilities(self) -> bytes | None:
        """Client capabilities, normalized raw JSON; None for none."""
        request = self.request
        if request.modern:
            return features_of(request)
        peer = None if request.opened is None else request.opened.peer
        return None if peer is None else peer.features

    @property
    def timed(self) -> GuardedRequest:
        """Request to the server whose time is the call's."""
        return self

    def gave_up(self, error: Exception) -> None:
        request, route = self.request, self.route
        if isinstance(error, Timeout) and error.sent and route.tool is not None:
            error = Timeout(self.timed.timeout_message(), sent=True)
        if not isinstance(error, McpError):
            log.error(
                "%s %s of %s failed in the gateway itself",
                request.method,
                route.name,
                route.server.key,
                exc_info=error,
                extra=self._trace,
            )
            body = jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "Internal error")
            self.end(str(jsonrpc.INTERNAL_ERROR), 200, (body,))
        elif route.tool is None or is_for_the_client(request, error):
            self.limit = refusals.limit_of(error)
            rejection = rejection_for(request, error)
            # recorded in the same word for clients of both eras
            self._reject(str(rejection.code) if route.tool is None else refusals.refusal_for(error).code, rejection)
        else:
            self.limit = refusals.limit_of(error)
            self.refuse(refusals.refusal_for(error))

    def answer_failed(self, error: Exception) -> None:
        """Give up because of what the server answered."""
        self.measure(outcome_of_refusal(error))
        # the context, as mypyc drops the cause of a `raise … from`
        if isinstance(error, RecursionError) or isinstance(error.__context__, RecursionError):
            error = NotMcp(TOO_DEEP)
        self.gave_up(error)

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal: of a tool call as a result, which the model reads, of anything else as an error."""
        request = self.request
        self.refusal = refusal.message
        if self.route.tool is None:
            self._reject(refusal.code, rejection_of(request, refusal))
            return
        if refusal.required is not None and request.modern:
            code = jsonrpc.MISSING_CLIENT_CAPABILITY
            body = jsonrpc.error(request.id, code, refusal.message, refusal.required)
            self.end(refusal.code, eras.status_for(code), (body,))
            return
        outcome = translate.result(
            refusals.result(refusal), from_modern=False, to_modern=request.modern, server_info=self.context.server_info
        )
        self.end(refusal.code, result=outcome.result)

    def end(self, error_type: str, status: int = 0, body: Body = (), *, result: bytes | Raw | None = None) -> None:
        """Answer with a result, or with a body of that status, unless the client is gone; and record. No-op when it has
        ended.
        """
        if self.done:
            return
        self.done = True
        self._pending = None  # it knows this call: see `Exchange`
        for account in self.lease:
            account.leave()
        self.released()
        if self.span is not None:
            self.span.end(error_type)
        if self.route.escapes:
            result = None if result is None else escaped(result)
            body = tuple(escaped(part) for part in body)
        try:
            if result is not None:
                body = (result,)
                self.exchange.succeed(self.request.id, result)
            elif status:
                self.exchange.answer(status, *body)
        finally:
            self._record(error_type, body)
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

    def _later(self, work: Coroutine[Any, Any, T], then: Callable[[T], None], name: str) -> None:
        """Go on with what the coroutine returns."""
        self._pending = task = asyncio.get_running_loop().create_task(self._go_on(work, then), name=name)
        self.context.own(task)

    async def _go_on(self, work: Coroutine[Any, Any, T], then: Callable[[T], None]) -> None:
        try:
            found = await work
            self._pending = None
            then(found)
        except asyncio.CancelledError:
            self.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the task; `gave_up` logs what is no error of the wire
            self.answer_failed(error)

    @property
    def _trace(self) -> dict[str, str]:
        """Its span, for a record of the log."""
        ids = None if self.span is None else self.span.ids
        return {} if ids is None else {TRACE_ID: ids.trace_id, SPAN_ID: ids.span_id}

    def _reject(self, error_type: str, rejection: Rejection) -> None:
        body = jsonrpc.error(self.request.id, rejection.code, rejection.message, rejection.data)
        self.end(error_type, rejection.status, (body,))

    def _record(self, error_type: str, body: Body) -> None:
        context, route = self.context, self.route
        context.over(self)
        ended = context.clock()
        seconds = ended - self.started
        took = int(seconds * 1e9)
        route.recorder.record(took, error_type)
        if route.tool is not None:
            context.metrics.waited(self.exchange.tier, took)
        span = None if self.span is None else self.span.ids
        if span is not None:
            route.recorder.exemplify(took, error_type, span.trace_id, span.span_id)
            if route.tool is not None:
                context.metrics.exemplify_wait(self.exchange.tier, took, span.trace_id, span.span_id)
        if self.limit:
            context.metrics.limit(self.limit)
        auditor, recent = context.auditor, context.recent
        size = len(body[0]) if len(body) == 1 else sum(map(len, body))
        audited = auditor is not None and (auditor.every or self.limit != "" or self.denied != "")
        if auditor is not None and audited:
            request = self.request
            auditor.called(
                self.exchange,
                request.method,
                route.server.key,
                route.name,
                request.params,
                error_type,
                seconds,
                size,
                self.limit,
                self.denied,
                span,
            )
        if recent is not None:
            remember(recent, self, error_type, ended, size, audited=audited)
