"""Handles every HTTP request to an MCP endpoint: rejects it, answers it at once, or starts a call.

One `McpEndpoint` handles the requests of all connections. It gets parsed requests, and is independent of sockets and of
the HTTP parser.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from fairlead_gateway.calls.path.dispatch import CALL, Dispatcher
from fairlead_gateway.calls.path.own_tools import OwnToolCalls
from fairlead_gateway.calls.path.startup import StartupWait
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.calls.routes.targets import name_in, param_lines
from fairlead_gateway.core import client_message
from fairlead_gateway.core.client_message import ClientResponse, Notification, Rejection, limit_rejection
from fairlead_gateway.core.identity import ANONYMOUS, LOCAL, Identity
from fairlead_gateway.core.request import McpRequest, agent_of
from fairlead_gateway.core.route import Route
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.builtin_methods import BuiltinMethods
from fairlead_gateway.endpoint.event_store import FIRST_REVISION, Cancellable, EventStore, StreamResumption
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.held_requests import HeldRequests
from fairlead_gateway.endpoint.http_service import HttpService, PortLimits
from fairlead_gateway.endpoint.inbound import SESSION, accepts_streams, check_origin, classify, prefers_streams
from fairlead_gateway.endpoint.meta_calls import MetaCalls
from fairlead_gateway.endpoint.notification_streams import NotificationStreams
from fairlead_gateway.endpoint.page_access import page_lines, preflight_lines
from fairlead_gateway.endpoint.session_claims import claim_session, claim_session_of_message
from fairlead_gateway.endpoint.stream_starts import StreamStarts
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.request_authentication import Identities, refuse_elsewhere
from fairlead_gateway.identity.resource import ProtectedResource
from fairlead_gateway.policy.decision import denial
from fairlead_gateway.policy.selection import Selection, ServedSelection
from fairlead_gateway.policy.unknown_endpoints import why_unknown
from fairlead_gateway.policy.view import View
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.addresses import AllowList
from fairlead_mcp.methods import method_in_era

LISTEN: Final = "subscriptions/listen"

log = logging.getLogger(__name__)

TIMED_METHODS: Final = (*eras.LISTS, "initialize", "server/discover", "ping")
"""Methods that the gateway answers itself, with their duration recorded in metrics."""
_REJECTION_HEADERS: Final = {405: b"allow: POST\r\n", 429: client_message.RETRY_AFTER, 503: client_message.RETRY_AFTER}
"""Header lines of rejections, by status."""


@dataclass(frozen=True)
class ClientAccess:
    """Components that decide whether a client's request is accepted: authentication, and checks of the request's
    headers."""

    allow: AllowList
    """Allowed values of `Host` and `Origin`."""
    identities: Identities
    """Authentication of credentials."""
    resource: ProtectedResource
    """Headers of rejections for missing or invalid credentials."""
    installation: str
    """Value of `Via` in the gateway's own requests (RFC 9110, 7.6.3)."""


@dataclass(frozen=True)
class RequestHandlers:
    """Components that answer authenticated requests."""

    dispatcher: Dispatcher
    builtin_methods: BuiltinMethods
    own_tools: OwnToolCalls
    recorder: ContextRecorder
    startup_wait: StartupWait
    router_tokens: int | None
    """Default limit on the tokens of a result at the router endpoint; None for no limit."""


class McpEndpoint(HttpService):
    """Handler of the requests of all connections. `activate` replaces `selection`, the served tools."""

    def __init__(
        self,
        access: ClientAccess,
        handlers: RequestHandlers,
        streams: NotificationStreams,
        event_store: EventStore,
        limits: PortLimits,
        served: ServedSelection,
    ) -> None:
        dispatcher = handlers.dispatcher
        metrics = dispatcher.context.metrics
        super().__init__(limits, metrics.shares)
        self.allow = access.allow
        self.installation = access.installation
        self.identities = access.identities
        # Any program and user of a machine can serve a local page, which is allowed by default. Where calls need no
        # credential, a browser would give that page the rights of the machine's owner.
        self._answers_pages = access.allow.has_chosen_origins or not access.identities.answers_anybody
        self.resource = access.resource
        self.dispatcher = dispatcher
        self.context = dispatcher.context
        self.server_requests = dispatcher.context.server_requests
        self.sessions = self.server_requests.sessions
        self.builtin_methods = handlers.builtin_methods
        self.metrics = metrics
        self.clock = dispatcher.context.clock
        self._served = served
        self.selection = served.selection  # stored here too: each request reads the selection, and this saves a look-up
        self.targets = self.selection.targets
        self.built_views = self.selection.built_views
        self.streams = streams
        self.view_builds = streams.view_builds
        self.event_store = event_store
        self.stream_starts = StreamStarts()
        self.pending_tasks: set[asyncio.Task[None]] = set()
        """Tasks of requests that wait for authentication or for their view."""
        self.held_requests = HeldRequests(
            served.get, handlers.startup_wait, self.context.server_info, metrics, self._fail
        )
        self.router_tokens = handlers.router_tokens
        self.meta_calls = MetaCalls(dispatcher, handlers.recorder, handlers.own_tools, self)
        self._recorders = {method: metrics.recorder(method) for method in TIMED_METHODS}

    def activate(self, selection: Selection) -> None:
        """Replace the served selection, and retry requests that wait for a server to start."""
        self.selection = self._served.selection = selection
        self.targets = selection.targets
        self.built_views = selection.built_views
        self.held_requests.startup_wait.on_swap()

    @property
    def cancels_abandoned(self) -> bool:
        return self.event_store.cancels_abandoned

    @property
    def in_progress(self) -> list[Cancellable]:
        return [*self.context.calls, *self.pending_tasks]

    def count_refused(self, status: int) -> None:
        self.metrics.reject(status)

    def sweep(self, now: float) -> None:
        self.streams.keep_alive(now)
        self.event_store.sweep()
        self.identities.sweep()

    async def wait_until_idle(self) -> None:
        await self.context.wait_until_idle()
        if self.pending_tasks:
            await asyncio.wait(self.pending_tasks)

    @property
    def calls(self) -> set[object]:
        """Calls, and asyncio tasks of requests, that clients are waiting for."""
        return {*self.context.calls, *self.pending_tasks, *self.held_requests.tasks}

    def serve(self, exchange: HttpExchange) -> None:
        """Answer a request, or start the call that will answer it. Never raises."""
        try:
            headers, rejection = exchange.headers, None
            if not exchange.vetted:
                rejection = check_origin(headers, exchange.authority, self.allow, self.installation)
                if rejection is None and self._answers_pages and b"origin" in headers:
                    if exchange.method == b"OPTIONS":
                        exchange.page_lines = preflight_lines(headers)
                        exchange.acknowledge(200)
                        return
                    exchange.page_lines = page_lines(headers)
            identity = self.identities.recall(exchange.headers.get(b"authorization"))
            if identity is LOCAL and not exchange.is_by_owner():
                identity = ANONYMOUS
            if rejection is not None:
                self.reject(exchange, rejection)
            elif identity is None:
                self.start_task(exchange, partial(self._authenticate, exchange), "authenticate a client")
            else:
                self._route(exchange, identity)
        except Exception as error:  # noqa: BLE001  # the edge of the request; it is logged
            self._fail(exchange, error)

    def start_task(self, exchange: HttpExchange, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Continue a request in an asyncio task, so that its connection can continue to read."""
        task = asyncio.get_running_loop().create_task(self._run(exchange, work), name=name)
        self.pending_tasks.add(task)
        task.add_done_callback(self.pending_tasks.discard)

    async def _run(self, exchange: HttpExchange, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001  # the edge of the request; it is logged
            self._fail(exchange, error)

    async def _authenticate(self, exchange: HttpExchange) -> None:
        """Authenticate a credential that is not in the cache, then handle the request."""
        verdict = await self.identities.identify(exchange.headers.get(b"authorization"))
        if exchange.gone:
            return
        if isinstance(verdict, CredentialRefusal):
            self._reject_credential(exchange, verdict)
        else:
            self._route(exchange, verdict)

    def _route(self, exchange: HttpExchange, identity: Identity, may_wait: bool = True) -> None:
        """Handle an authenticated request with the principal's view of its target.

        With `may_wait`, a request to the endpoint of a starting server is held until the server is ready.
        """
        exchange.identity = identity
        if identity.resource and (refusal := refuse_elsewhere(identity, exchange.target.decode("latin-1"))) is not None:
            self._reject_credential(exchange, refusal)
            return
        view = self.built_views.find(identity, exchange.target)
        if view is None:
            if not self.selection.is_built(identity, exchange.target):
                self.start_task(exchange, partial(self._build_view, exchange, identity), "build a view")
                return
            view = self.selection.seen_by(identity).get(exchange.target)
        if exchange.method == b"POST":
            if view is not None:
                self._handle_message(exchange, view)
            elif not self.held_requests.hold_endpoint(
                exchange, partial(self._route, may_wait=False) if may_wait else None
            ):
                self.reject(exchange, self._unknown_endpoint(exchange))
        elif exchange.method not in (b"GET", b"DELETE") or view is None or SESSION not in exchange.headers:
            self.reject(exchange, client_message.NO_STREAM)
        elif not self.sessions.belongs_to(identity.owner, exchange.headers[SESSION]):
            self.reject(exchange, client_message.SESSION_UNKNOWN)
        elif exchange.method == b"DELETE":
            self._end_session(exchange)
        elif not (self.buffers.refuses_requests and self._reject_over_budget(exchange)):
            self._reject_if(exchange, self._open_get_stream(exchange, view))

    async def _build_view(self, exchange: HttpExchange, identity: Identity) -> None:
        """Build the principal's view of the request's target, then handle the request."""
        await self.view_builds.wait_until_built(self.selection, identity, exchange.target)
        if not exchange.gone:
            self._route(exchange, identity)

    def _unknown_endpoint(self, exchange: HttpExchange) -> Rejection:
        message = why_unknown(self.selection, exchange.identity, exchange.target)
        return Rejection(404, jsonrpc.INVALID_REQUEST, message)

    def _end_session(self, exchange: HttpExchange) -> None:
        if self.sessions.end(exchange.headers[SESSION]):
            self.context.end_session(exchange.headers[SESSION])
            exchange.acknowledge(200)  # the client of the Python SDK treats a 202 as a failure
        else:
            self.reject(exchange, client_message.SESSION_ENDED)

    def _open_get_stream(self, exchange: HttpExchange, view: View) -> Rejection | None:
        """Open a session's notification stream or, with `Last-Event-ID`, resume the stream of an earlier request."""
        if b"last-event-id" not in exchange.headers:
            return self.streams.get(exchange, view)
        stream_and_number = self.event_store.find(exchange.headers[SESSION], exchange.headers[b"last-event-id"])
        if stream_and_number is None or not exchange.begin_stream():
            return client_message.NOT_RESUMABLE
        stream, number = stream_and_number
        exchange.call = StreamResumption(stream, exchange)
        exchange.cancel_on_disconnect = True
        stream.attach(exchange, number)
        return None

    def _reject_if(self, exchange: HttpExchange, rejection: Rejection | None) -> None:
        if rejection is not None:
            self.reject(exchange, rejection)

    def _handle_message(self, exchange: HttpExchange, view: View) -> None:
        body = exchange.body
        body = body if type(body) is bytes else bytes(body)
        if not (exchange.vetted or accepts_streams(exchange.headers)):
            exchange.can_stream = False
        message = classify(exchange.headers, body, acceptable=exchange.vetted)
        # tests the most frequent type first: an isinstance that is False costs five times as much as one that is True
        if isinstance(message, McpRequest):
            self._handle_request(exchange, view, message)
        elif isinstance(message, Rejection):
            self.reject(exchange, message)
        else:
            self._take_message_without_answer(exchange, message)

    def _take_message_without_answer(self, exchange: HttpExchange, message: Notification | ClientResponse) -> None:
        """Handle a notification or a response of the client, and reply with the status 202."""
        exchange.vetted = True
        if message.session is not None:
            sessions, owner = self.sessions, exchange.identity.owner
            claimed_message = claim_session_of_message(sessions, owner, message, message.session)
            if isinstance(claimed_message, Rejection):
                self.reject(exchange, claimed_message)
                return
            message = claimed_message
        if isinstance(message, ClientResponse):
            self.server_requests.take_answer(message.session, message.message, exchange.identity)
        elif message.method == "notifications/cancelled" and "requestId" in message.params:
            self.context.cancel(message.session, bytes(message.params["requestId"]))
            self.held_requests.cancel(message.session, bytes(message.params["requestId"]))
        exchange.acknowledge()

    def _handle_request(self, exchange: HttpExchange, view: View, request: McpRequest) -> None:
        exchange.vetted = True
        if self.buffers.refuses_requests and self._reject_over_budget(exchange, request.id):
            return
        if request.session is not None:
            sessions, owner = self.sessions, exchange.identity.owner
            claimed_request = claim_session(sessions, owner, request, request.session)
            if not isinstance(claimed_request, McpRequest):
                self.reject(exchange, claimed_request)
                return
            request = claimed_request
        if request.method == CALL or method_in_era(request.method, modern=request.modern) is not None:
            self._call(exchange, view, request)
        elif request.method == LISTEN and request.modern:
            self._reject_if(exchange, self.streams.listen(exchange, view, request))
        else:
            self._answer_builtin(exchange, view, request)

    def _reject_over_budget(self, exchange: HttpExchange, ident: bytes = b"null") -> bool:
        """Reject the request if clients have left too many bytes of responses unread. Returns whether the request was
        rejected."""
        refusal = self.buffers.refusal(agent_of(exchange))
        if refusal is None:
            return False
        status, message = refusal
        if self.context.auditor is not None:
            self.context.auditor.record_rejection(exchange, status, message)
        self.metrics.reject(status)
        exchange.reject(limit_rejection(status, message, ident), client_message.RETRY_AFTER)
        return True

    def _call(self, exchange: HttpExchange, view: View, request: McpRequest, may_wait: bool = True) -> None:
        """Call the tool, prompt, resource, completion or task that the request names.

        With `may_wait`, a call of a starting server's tool is held until the server is ready.
        """
        exchange.tier = view.tier
        if view.full_view is not None:
            request.default_tokens = self.router_tokens
        route = self.dispatcher.resolve(view, request, exchange.identity)
        if isinstance(route, Route):
            self.start_call(exchange, route, request)
            return
        retry = self._call_again if may_wait else None
        if request.method == CALL:
            self.meta_calls.call(exchange, view, request, route, retry)
        elif not self.meta_calls.read(exchange, request):
            self.refuse_call(exchange, view, request, route, retry)

    def refuse_call(
        self,
        exchange: HttpExchange,
        view: View,
        request: McpRequest,
        rejection: Rejection,
        retry: Callable[[HttpExchange, McpRequest], None] | None,
    ) -> None:
        """Reject a request for a name that the view does not have, with the rejection `rejection`.

        If the name may be a tool of a starting server, and `retry` is given, the request is held instead.
        """
        denied_tool = None
        if request.method == CALL:
            if self.held_requests.hold_call(exchange, view, request, retry):
                return
            name = name_in(request)
            if name is not None and self.context.auditor is not None:
                denied_tool = denial(self.selection, exchange.identity, view, name)
        self.dispatcher.record_unresolved(exchange, request, rejection, denied_tool)
        self.reject(exchange, rejection)

    def _call_again(self, exchange: HttpExchange, request: McpRequest) -> None:
        view = self.selection.seen_by(exchange.identity).get(exchange.target)
        if view is None:
            self.reject(exchange, self._unknown_endpoint(exchange))
        else:
            self._call(exchange, view, request, may_wait=False)

    def start_call(
        self, exchange: HttpExchange, route: Route, request: McpRequest, *, named_by_client: bool = True
    ) -> None:
        """Start a call, or reject it if its `Mcp-Param-*` headers do not match its arguments (SEP-2243).

        `named_by_client` is False if the client called a meta-tool that calls this tool: the headers then belong to the
        meta-tool's arguments, and are not checked.
        """
        lines = b""
        if route.param_headers:
            param_headers = param_lines(route, request, exchange.headers if named_by_client else None)
            if isinstance(param_headers, Rejection):
                self.reject(exchange, param_headers)
                return
            lines = param_headers
        exchange.cancel_on_disconnect = request.modern
        if not request.modern:
            session = request.legacy_session
            if session is not None and session.version >= FIRST_REVISION:
                exchange.resumes = self.event_store, request.session or b""
            exchange.prefers_stream = exchange.can_stream and prefers_streams(exchange.headers)
        call = self.dispatcher.start(exchange, route, request, lines)
        if not call.done:
            exchange.wait_for(call)
            if exchange.prefers_stream:
                exchange.defer_stream(self.stream_starts)

    def _answer_builtin(self, exchange: HttpExchange, view: View, request: McpRequest) -> None:
        started_at = self.clock()
        result = self.builtin_methods.answer(view, request, exchange)
        if isinstance(result, Rejection):
            self.reject(exchange, result)
            return
        if exchange.can_stream and not request.modern and not result.extra:
            exchange.prefers_stream = prefers_streams(exchange.headers)
        exchange.answer(200, *result.body, extra=result.extra)
        recorder = self._recorders.get(request.method)
        if recorder is not None:
            recorder.record(int((self.clock() - started_at) * 1e9))

    def _reject_credential(self, exchange: HttpExchange, refusal: CredentialRefusal) -> None:
        """Reject a request whose credential is missing or invalid (RFC 6750)."""
        self.metrics.reject(refusal.status)
        if self.context.auditor is not None:
            self.context.auditor.record_rejection(exchange, refusal.status, refusal.message)
        rejection = Rejection(refusal.status, jsonrpc.INVALID_REQUEST, refusal.message)
        host = exchange.headers.get(b"host", b"") if exchange.authority is None else exchange.authority
        headers = self.resource.headers(refusal, host.decode("latin-1"), exchange.target.decode("latin-1"))
        exchange.reject(rejection, "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode())

    def _fail(self, exchange: HttpExchange, error: Exception) -> None:
        log.error("A request failed because of a defect in the gateway; please report it", exc_info=error)
        self.reject(exchange, Rejection(500, jsonrpc.INTERNAL_ERROR, "Internal error"))

    def reject(self, exchange: HttpExchange, rejection: Rejection) -> None:
        """Answer with an error, and count the rejection."""
        self.metrics.reject(rejection.status)
        exchange.reject(rejection, _REJECTION_HEADERS.get(rejection.status, responses.NO_EXTRA))
