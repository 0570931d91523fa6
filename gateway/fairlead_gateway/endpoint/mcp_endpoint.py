"""Answers requests to MCP endpoints: rejects them, answers them at once, or starts a call.

One per gateway. It is given whole requests, and knows no sockets and no parser.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import msgspec

from fairlead_gateway.calls.dispatch import CALL, Dispatcher
from fairlead_gateway.calls.sessions import MAX_FOREIGN_ID
from fairlead_gateway.calls.startup import StartupWait
from fairlead_gateway.calls.targets import METHODS, SUBSCRIPTIONS, param_lines, resolve
from fairlead_gateway.core.client_message import ClientResponse, Notification, Rejection
from fairlead_gateway.core.exchange import agent_of
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.refusal import META_ERROR, RATE_LIMITED
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.builtin_methods import BuiltinMethods
from fairlead_gateway.endpoint.client_limits import ClientLimits
from fairlead_gateway.endpoint.connection_limiter import ConnectionLimiter
from fairlead_gateway.endpoint.event_store import SINCE, EventStore, StreamResumption
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.head_cache import HeadCache
from fairlead_gateway.endpoint.held_requests import HeldRequests, name_in
from fairlead_gateway.endpoint.inbound import SESSION, classify, prefers_streams
from fairlead_gateway.endpoint.notification_streams import NotificationStreams
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.identity.identities import Identities
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.resource import ProtectedResource
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.policy.decision import denial
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.tiers import in_tier
from fairlead_gateway.policy.view import MERGED, View
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import eras, jsonrpc, via
from fairlead_mcp.hosts import AllowList

LISTEN: Final = "subscriptions/listen"
_NO_STREAM_KEPT: Final = "Nothing is kept of that stream here (Last-Event-ID)"
SESSION_ENDED: Final = Rejection(404, jsonrpc.INVALID_REQUEST, "The session has ended")
NO_STREAM: Final = Rejection(405, jsonrpc.INVALID_REQUEST, "MCP is spoken by POST; there is no stream to GET")
NOT_YOURS: Final = Rejection(404, jsonrpc.INVALID_REQUEST, "The session was opened by somebody else: initialize anew")

ClientMessage: TypeAlias = McpRequest | Notification | ClientResponse

log = logging.getLogger(__name__)

TIMED: Final = (*eras.LISTS, "initialize", "server/discover", "ping")
"""Methods that are counted although they need no server."""


class McpEndpoint:
    """Request handler that all connections share. `selection`, the snapshot with its views, is replaced as a whole, by `activate`."""

    def __init__(
        self,
        allow: AllowList,
        dispatcher: Dispatcher,
        builtin_methods: BuiltinMethods,
        book: MetricsRegistry,
        bounds: ClientLimits,
        identities: Identities,
        resource: ProtectedResource,
        streams: NotificationStreams,
        event_store: EventStore,
        startup_wait: StartupWait,
        clock: Callable[[], float] = time.monotonic,
        proxies: TrustedProxies | None = None,
        buffers: AnswerBuffers | None = None,
        installation: str = "",
    ) -> None:
        self.allow = allow
        self.installation = installation
        """Value of `Via` in this gateway's requests (RFC 9110, 7.6.3)."""
        self.identities = identities
        self.resource = resource
        self.dispatcher = dispatcher
        self.context = dispatcher.context
        self.live = dispatcher.context.server_requests
        self.builtin_methods = builtin_methods
        self.book = book
        self.bounds = bounds
        self.head_cache = HeadCache()
        self.connection_limiter = ConnectionLimiter(bounds.connections, bounds.connections_each)
        self.clock = clock
        self.selection = Selection()
        self.proxies = TrustedProxies() if proxies is None else proxies
        self.buffers = AnswerBuffers() if buffers is None else buffers
        self.streams = streams
        self.view_builds = streams.view_builds
        self.event_store = event_store
        self.retiring = False
        """Whether clients are asked to come back on another connection."""
        self.pending_tasks: set[asyncio.Task[None]] = set()
        """Requests whose client or view is not known yet."""
        self.held_requests = HeldRequests(
            lambda: self.selection, startup_wait, self.context.server_info, book, self._failed
        )
        self._recorders = {method: book.recorder(method) for method in TIMED}

    def activate(self, selection: Selection) -> None:
        """Serve it from now on, in place of the last one; requests that wait for a server look again."""
        self.selection = selection
        self.held_requests.startup_wait.swapped()

    def retire(self) -> None:
        """Ask clients from now on to use another connection."""
        self.retiring = True

    @property
    def calls(self) -> set[object]:
        """Calls and tasks that clients wait for."""
        return {*self.context.calls, *self.pending_tasks, *self.held_requests.tasks}

    def serve(self, exchange: HttpExchange) -> None:
        """Answer the request, or start the call that will. Never raises."""
        try:
            refused = None if exchange.vetted else self._out_of_place(exchange)
            identity = self.identities.known(exchange.headers.get(b"authorization"))
            if refused is not None:
                self._reject(exchange, refused)
            elif identity is None:
                self._look_up(exchange)
            else:
                self._take(exchange, identity)
        except Exception as error:  # noqa: BLE001  # the edge of the request; it is logged
            self._failed(exchange, error)

    def _out_of_place(self, exchange: HttpExchange) -> Rejection | None:
        """The defense against DNS rebinding: nobody is asked who they are before it."""
        authority = exchange.authority
        if not self.allow.host(exchange.headers.get(b"host") if authority is None else authority):
            return Rejection(421, jsonrpc.INVALID_REQUEST, "Host is not one that this gateway answers for")
        if not self.allow.origin(exchange.headers.get(b"origin")):
            return Rejection(403, jsonrpc.INVALID_REQUEST, "Origin is not allowed")
        if b"via" in exchange.headers:
            looped = via.refusal(exchange.headers[b"via"], self.installation)
            if looped is not None:
                return Rejection(508, jsonrpc.INVALID_REQUEST, looped)
        return None

    def _look_up(self, exchange: HttpExchange) -> None:
        """Have somebody vouch for a credential that is not known; other requests go on meanwhile."""
        task = asyncio.get_running_loop().create_task(self._identify(exchange), name="identify a client")
        self.pending_tasks.add(task)
        task.add_done_callback(self.pending_tasks.discard)

    async def _identify(self, exchange: HttpExchange) -> None:
        try:
            verdict = await self.identities.identify(exchange.headers.get(b"authorization"))
            if exchange.gone:
                return
            if isinstance(verdict, CredentialRefusal):
                self._turn_away(exchange, verdict)
            else:
                self._take(exchange, verdict)
        except Exception as error:  # noqa: BLE001  # the edge of the request; it is logged
            self._failed(exchange, error)

    def _take(self, exchange: HttpExchange, identity: Identity, patient: bool = True) -> None:
        """The request of somebody who is known; a patient one may wait for a server that starts."""
        exchange.identity = identity
        view = self.selection.at_once(identity, exchange.target)
        if view is None:
            if not self.selection.ready(identity, exchange.target):
                self._prepare(exchange, identity)
                return
            view = self.selection.seen_by(identity).get(exchange.target)
        if exchange.method == b"POST":
            if view is not None:
                self._answer(exchange, view)
            elif not self.held_requests.endpoint(exchange, partial(self._take, patient=False) if patient else None):
                self._reject(exchange, self._nowhere(identity))
        elif exchange.method not in (b"GET", b"DELETE") or view is None or not self._has_session(exchange):
            self._reject(exchange, NO_STREAM)
        elif exchange.method == b"DELETE":
            self._end_session(exchange)
        elif not (self.buffers.pressed and self._shed(exchange)):
            self._open_stream(exchange, self._get(exchange, view))

    def _prepare(self, exchange: HttpExchange, identity: Identity) -> None:
        """Have the view put together of which this is the first request; other requests go on meanwhile."""
        task = asyncio.get_running_loop().create_task(self._prepared(exchange, identity), name="prepare a view")
        self.pending_tasks.add(task)
        task.add_done_callback(self.pending_tasks.discard)

    async def _prepared(self, exchange: HttpExchange, identity: Identity) -> None:
        try:
            await self.view_builds.ready(self.selection, identity, exchange.target)
            if not exchange.gone:
                self._take(exchange, identity)
        except Exception as error:  # noqa: BLE001  # the edge of the request; it is logged
            self._failed(exchange, error)

    def _nowhere(self, identity: Identity) -> Rejection:
        views = self.selection.seen_by(identity)
        tiers = ", ".join(tier for tier in self.selection.snapshot.tiers if in_tier(MERGED, tier) in views) or "none"
        return Rejection(404, jsonrpc.INVALID_REQUEST, f"There is no such MCP endpoint or tier; tiers: {tiers}")

    def _has_session(self, exchange: HttpExchange) -> bool:
        """Whether the request names a session that its principal opened."""
        ident = exchange.headers.get(SESSION)
        session = None if ident is None else self.live.sessions.read(ident)
        return session is not None and session.owner == exchange.identity.owner

    def _end_session(self, exchange: HttpExchange) -> None:
        if self.live.sessions.end(exchange.headers[SESSION]):
            self.context.end_session(exchange.headers[SESSION])
            exchange.acknowledge(200)  # the SDK's client takes a 202 for a failure
        else:
            self._reject(exchange, SESSION_ENDED)

    def _get(self, exchange: HttpExchange, view: View) -> Rejection | None:
        """The stream of a session, or the rest of one that was the answer to a request."""
        if b"last-event-id" not in exchange.headers:
            return self.streams.get(exchange, view)
        found = self.event_store.find(exchange.headers[SESSION], exchange.headers[b"last-event-id"])
        if found is None or not exchange.begin_stream():
            return Rejection(400, jsonrpc.INVALID_REQUEST, _NO_STREAM_KEPT)
        stream, number = found
        exchange.call = StreamResumption(stream, exchange)
        exchange.modern = True  # closing the connection gives it up
        stream.attach(exchange, number)
        return None

    def _open_stream(self, exchange: HttpExchange, refused: Rejection | None) -> None:
        if refused is not None:
            self._reject(exchange, refused)

    def _answer(self, exchange: HttpExchange, view: View) -> None:
        body = exchange.body
        body = body if type(body) is bytes else bytes(body)
        asked = classify(exchange.headers, body, acceptable=exchange.vetted)
        # what it is as a rule is asked first: an isinstance that fails costs five times as much as one that does not
        if not isinstance(asked, McpRequest) and isinstance(asked, Rejection):
            self._reject(exchange, asked)
            return
        exchange.vetted = True
        if self.buffers.pressed and isinstance(asked, McpRequest) and self._shed(exchange, asked.id):
            return
        if asked.session is not None:
            owned = self._in_session(exchange.identity, asked, asked.session)
            if owned is not asked and isinstance(owned, Rejection):
                self._reject(exchange, owned)
                return
            asked = owned
        if not isinstance(asked, McpRequest):
            if isinstance(asked, ClientResponse):
                self.live.answered(asked.session, asked.message)
            elif asked.method == "notifications/cancelled" and "requestId" in asked.params:
                self.context.cancel(asked.session, bytes(asked.params["requestId"]))
                self.held_requests.cancel(asked.session, bytes(asked.params["requestId"]))
            exchange.acknowledge()
        elif asked.method == CALL:
            self._call(exchange, view, asked)
        elif asked.method == LISTEN and asked.modern:
            self._open_stream(exchange, self.streams.listen(exchange, view, asked))
        elif asked.method in METHODS and not (asked.modern and asked.method in SUBSCRIPTIONS):
            self._start(exchange, resolve(view.offers, asked, self.book), asked)
        else:
            self._answer_locally(exchange, view, asked)

    def _shed(self, exchange: HttpExchange, ident: bytes = b"null") -> bool:
        """Refuse a request while too many bytes of answers are not read; False where there is room."""
        refused = self.buffers.refusal(agent_of(exchange))
        if refused is None:
            return False
        status, message = refused
        if self.context.auditor is not None:
            self.context.auditor.turned_away(exchange, status, message)
        self.book.reject(status)
        detail = {"code": RATE_LIMITED, "message": message, "retryAfterMs": 1000}
        data = jsonrpc.encode({META_ERROR: detail})
        exchange.reject(Rejection(status, jsonrpc.INTERNAL_ERROR, message, ident, data), b"retry-after: 1\r\n")
        return True

    def _in_session(self, identity: Identity, asked: ClientMessage, ident: bytes) -> ClientMessage | Rejection:
        """The message, with the claims of its session where the principal opened it. An id that our key did not sign
        may be anybody's: it is removed for an authenticated principal, and where it is too long to be kept.
        """
        sessions = self.live.sessions
        session = sessions.read(ident)
        if session is None:
            if not identity.owner and len(ident) <= MAX_FOREIGN_ID:
                return asked
            return (
                asked.sessionless() if isinstance(asked, McpRequest) else msgspec.structs.replace(asked, session=None)
            )
        if session.owner != identity.owner:
            return NOT_YOURS
        if sessions.ended(ident):
            return SESSION_ENDED
        if isinstance(asked, McpRequest):
            asked.opened = session
        return asked

    def _call(self, exchange: HttpExchange, view: View, asked: McpRequest, patient: bool = True) -> None:
        exchange.tier = view.tier
        route = self.dispatcher.resolve(view, asked)
        if not isinstance(route, Route):
            if self.held_requests.call(exchange, view, asked, self._call_again if patient else None):
                return
            if self.context.auditor is not None:
                name = name_in(asked)
                by = None if name is None else denial(self.selection, exchange.identity, view, name)
                self.dispatcher.denied(exchange, asked, route, by)
            self._reject(exchange, route)
            return
        self._start(exchange, route, asked)

    def _call_again(self, exchange: HttpExchange, asked: McpRequest) -> None:
        view = self.selection.seen_by(exchange.identity).get(exchange.target)
        if view is None:
            self._reject(exchange, self._nowhere(exchange.identity))
        else:
            self._call(exchange, view, asked, patient=False)

    def _start(self, exchange: HttpExchange, route: Route | Rejection, asked: McpRequest) -> None:
        """Make a request to a server, once the headers match what they repeat of it."""
        if isinstance(route, Rejection):
            self._reject(exchange, route)
            return
        lines = param_lines(route, asked, exchange.headers) if route.param_headers else b""
        if isinstance(lines, Rejection):
            self._reject(exchange, lines)
            return
        exchange.modern = asked.modern
        if not asked.modern:
            session = asked.opened
            if session is not None and session.version >= SINCE:
                exchange.resumes = self.event_store, asked.session or b""
            if prefers_streams(exchange.headers):
                exchange.begin_stream()
        call = self.dispatcher.start(exchange, route, asked, lines)
        if not call.done:
            exchange.wait_for(call)

    def _answer_locally(self, exchange: HttpExchange, view: View, asked: McpRequest) -> None:
        began = self.clock()
        reply = self.builtin_methods.answer(view, asked, exchange.identity.owner)
        if isinstance(reply, Rejection):
            self._reject(exchange, reply)
            return
        if prefers_streams(exchange.headers) and not asked.modern and not reply.extra:
            exchange.begin_stream()
        exchange.answer(200, *reply.body, extra=reply.extra)
        recorder = self._recorders.get(asked.method)
        if recorder is not None:
            recorder.record(int((self.clock() - began) * 1e9))

    def _turn_away(self, exchange: HttpExchange, refusal: CredentialRefusal) -> None:
        """Reject a request whose credential is missing or not accepted (RFC 6750)."""
        self.book.reject(refusal.status)
        if self.context.auditor is not None:
            self.context.auditor.turned_away(exchange, refusal.status, refusal.message)
        rejection = Rejection(refusal.status, jsonrpc.INVALID_REQUEST, refusal.message)
        host = exchange.headers.get(b"host", b"") if exchange.authority is None else exchange.authority
        headers = self.resource.headers(refusal, host.decode("latin-1"), exchange.target.decode("latin-1"))
        exchange.reject(rejection, "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode())

    def _failed(self, exchange: HttpExchange, error: Exception) -> None:
        log.error("A request failed in the gateway itself", exc_info=error)
        self._reject(exchange, Rejection(500, jsonrpc.INTERNAL_ERROR, "Internal error"))

    def _reject(self, exchange: HttpExchange, rejection: Rejection) -> None:
        self.book.reject(rejection.status)
        exchange.reject(rejection, b"allow: POST\r\n" if rejection.status == 405 else responses.NO_EXTRA)
