"""Upstream of a server with Streamable HTTP, for both eras.

An `HttpUpstream` has one endpoint, and prepares the heads of its requests once. A head contains the server's credential
if one credential is for all requests; otherwise, each request adds its own access token. Modern servers are called
without a handshake. At a legacy server, the first request opens a session, which is reopened if the server loses it.
Clients without capabilities share a session, so the gateway assigns unique ids and progress tokens.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw

from fairlead_api.documents.catalog import Credential
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.outbound import CallCredential, CallCredentials
from fairlead_gateway.core.ports import Gauges, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.background_work import BackgroundTasks
from fairlead_gateway.upstream.http_call import HttpCall
from fairlead_gateway.upstream.pod_health import PodHealthTable
from fairlead_gateway.upstream.pod_pools import PodPools, ServerPod
from fairlead_gateway.upstream.server_facts import ServerTraits
from fairlead_gateway.upstream.server_session import (
    CompleteElicitation,
    ServerSession,
    forward_nothing,
    shared_key,
)
from fairlead_gateway.upstream.session_pool import IDLE_SECONDS, MAX_SESSIONS, RequestForm, ServerSessions
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import ConnectFailed, HandshakeRefused, HttpRefused, McpError, NotMcp, UnsupportedVersion
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Address, Resolve, resolve_by_dns
from fairlead_mcp.http.exchange import Call
from fairlead_mcp.http.heads import length_value
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.reading import read_answer
from fairlead_mcp.http.target import Target, with_body
from fairlead_mcp.jsonrpc import BEFORE_ID
from fairlead_mcp.masking import Mask

LISTEN: Final = "subscriptions/listen"
_LENGTH: Final = b"Content-Length: "
_BODY_START: Final = b"\r\n\r\n" + BEFORE_ID
_METHOD: Final = b',"method":"%b","params":'
_END: Final = b"}"
_ERA_CODES: Final = frozenset(
    {
        jsonrpc.METHOD_NOT_FOUND,
        jsonrpc.INVALID_REQUEST,
        jsonrpc.INVALID_PARAMS,
        jsonrpc.UNSUPPORTED_PROTOCOL_VERSION,
    }
)
"""Codes by which a modern server rejects `initialize` of any client."""
_NO_SESSION_STATUSES: Final = frozenset({400, 404, 405})
"""HTTP statuses by which a modern server rejects `initialize` of any client."""
_ENVELOPE_BYTES: Final = len(BEFORE_ID) + len(_END)
"""Bytes of a body without id, method and params."""


@dataclass(frozen=True)
class HttpAccess:
    """HTTP access to a server: headers of every request, TLS, and the resolver, which returns one address per pod."""

    headers: Mapping[str, str]
    tls: ssl.SSLContext | None = None
    resolve: Resolve = resolve_by_dns
    credentials: CallCredentials | None = None
    """Access tokens per request; None if `headers` contain the credential."""
    max_sessions: int = MAX_SESSIONS
    """Limit on the sessions with a legacy server."""
    complete_elicitation: CompleteElicitation = forward_nothing
    """Forwards the notification that an elicitation is complete to the client, if the server sends it while no call of
    the client is running.
    """
    arguments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Secret arguments of tools. Calls contain them already; here they serve to mask errors."""


class HttpUpstream(Upstream):
    """Upstream of one server over Streamable HTTP.

    `session_idle` is the idle time of client sessions in seconds. `health` is shared with the server's other upstreams.
    """

    def __init__(
        self,
        target: Target,
        traits: ServerTraits,
        client: eras.Client,
        access: HttpAccess,
        *,
        session_idle: float = IDLE_SECONDS,
        health: PodHealthTable | None = None,
    ) -> None:
        self._modern = traits.modern
        self._client = client
        self.mask = Mask(Credential(headers=dict(access.headers), arguments=access.arguments))
        self._head = target.head(headers=access.headers)
        self._modern_heads: dict[str, bytes] = {}
        self._methods: dict[str, bytes] = {}
        """JSON between id and params in requests, by method."""
        self._last_id = 0

        def pool(addresses: Resolve, max_connections: int) -> Pool:
            return Pool(target.host, target.port, ssl=access.tls, limit=max_connections, resolve=addresses)

        self._health = health or PodHealthTable(random.random)
        self._pools = PodPools(pool, access.resolve, target, limit=traits.limit, listener=self, health=self._health)
        self.pool = self._pools.pools_of_any_pod.calls
        self.background = BackgroundTasks(target.host, self.pool.clock)
        form = RequestForm(
            self._head, client, self.next_id, self._read_response, access.credentials, access.complete_elicitation
        )
        self.sessions = ServerSessions(form, self._pools, self.background, session_idle, access.max_sessions)
        # read at every call: an attribute of this object is faster than two look-ups
        self._sessions = self.sessions.open
        self._idle = self.sessions.idle
        self._rejects_legacy_sessions = False
        """Whether a modern server has rejected a legacy session."""

    @property
    def modern(self) -> bool:
        return self._modern

    def next_id(self) -> bytes:
        self._last_id += 1
        return str(self._last_id).encode()

    def modern_for(self, client: ClientPeer | None) -> bool | None:
        if not self._modern or client is None or self._rejects_legacy_sessions:
            return self._modern
        return False if client in self._sessions else None

    async def negotiate(
        self, client: ClientPeer | None, deadline: float, credential: CallCredential | None = None
    ) -> bool:
        """Whether the client is served in the modern era. Clients with capabilities get a legacy session if the server
        supports legacy sessions, because a server can send requests to a client only in such a session.
        """
        if not self._modern or client is None or self._rejects_legacy_sessions:
            return self._modern
        person, line = (b"", b"") if credential is None else (credential.person, credential.line)
        try:
            await self.sessions.get_or_open(client, deadline, person=person, authorization=line)
        except (HandshakeRefused, HttpRefused, NotMcp, UnsupportedVersion) as error:
            if isinstance(error, HttpRefused) and error.status in (401, 403) and line:
                raise self.mask_of(line).error(error)  # noqa: B904 - the same error, with the token masked
            if _is_about_sessions(error, has_user_token=bool(line)):
                self._rejects_legacy_sessions = True
            return True
        except McpError as error:
            raise self.mask_of(line).error(error)  # noqa: B904 - the same error, with the token masked
        return False

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> HttpCall:
        call = HttpCall(self, request, sink)
        client = request.client
        if self._modern and (client is None or self._rejects_legacy_sessions):
            if request.affinity_tag is None and request.method != LISTEN:
                call.data = self._modern_data(request)
                pool = self.pool
                if self._pools.spreads_calls:
                    call.pod = pod = self._pools.pick()
                    pool = pod.pools.calls
                call.pool = pool
                pool.submit(call)
            else:
                call.work = self.background.run(self._send_modern(call, request), "send to")
            return call
        self.send_in_session(call)
        return call

    def has_sessions_of(self, person: bytes) -> bool:
        return self.sessions.has_any_of(person)

    def end_sessions_of(self, person: bytes) -> None:
        self.sessions.end_all_of(person)

    def gauges(self) -> Gauges:
        statistics = [pool.statistics() for pool in self._pools.all_calls()]
        busy, idle = sum(pool.busy for pool in statistics), sum(pool.idle for pool in statistics)
        serving, ejected = self._health.counts()
        return Gauges(busy, idle, sum(pool.waiting for pool in statistics), serving, ejected)

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await asyncio.gather(*[pool.aclose(grace) for pool in self._pools.all_calls()])
        await self.sessions.aclose()
        await self.background.aclose()
        await self._pools.aclose()

    # Interface for calls

    def send_in_session(self, call: HttpCall) -> None:
        """Send a request in the legacy session of its client, or in the shared session of some pod."""
        client, person = call.request.client, call.request.person
        if client is None and self._pools.spreads_calls:
            call.pod = self._pools.pick()
            session = self.sessions.shared_at(call.pod, person)
        elif client is None and person:
            session = self._sessions.get(shared_key(person, None))
        else:
            session = self._sessions.get(client)
        if session is None:
            call.work = self.background.run(self._open_and_send(call), "send to")
        else:
            self._send_in(call, session)

    def send_to_other_pod(self, call: HttpCall) -> bool:
        """Eject the pod that a call cannot connect to, and send the call to another pod; False if there is none."""
        pod = call.pod
        if pod is None or call.cancelled or not self._pools.eject(pod):
            return False
        self._send_again(call)
        return True

    async def _open_and_send(self, call: HttpCall) -> None:
        """Open a session, then send the request in it."""
        request = call.request
        try:
            session = await self.sessions.get_or_open(
                request.client, call.deadline, call.pod, request.person, request.authorization
            )
        except ConnectFailed as error:
            if not self.send_to_other_pod(call):
                call.refuse(error)
        except McpError as error:
            call.refuse(error)
        except asyncio.CancelledError:
            call.refuse(ConnectFailed("the connections to the server were closed", reason="Closed"))
            raise
        else:
            if not call.cancelled:
                self._send_in(call, session)

    def end_request(self, session: ServerSession, sink: ResponseSink) -> None:
        """Record the end of a request in a session of one client or user."""
        if session.leave(sink):
            self._idle.mark_idle(session)

    def answer_server(self, session: ServerSession, body: bytes) -> None:
        """Send a JSON-RPC response to a legacy server. It is sent over the control pool, so that it does not queue
        behind calls, which may be waiting for it.
        """
        self.background.post(self.sessions.pools(session).control, session.head, body, session.authorization)

    def notify_cancelled(self, call: HttpCall, session: ServerSession) -> None:
        """Send `notifications/cancelled` to a legacy server. For a modern server, closing the connection cancels."""
        params = b'{"requestId":%b,"reason":"The client cancelled the call, or its deadline passed"}' % call.request.id
        notification = jsonrpc.notification("notifications/cancelled", params)
        pools = self.sessions.pools(session) if call.pod is None else call.pod.pools
        self.background.post(pools.control, session.head, notification, session.authorization)

    def mask_of(self, *lines: bytes) -> Mask:
        """Masks every secret that was sent with a request, including its `Authorization` header lines."""
        mask = self.mask
        for line in lines:
            if line:
                mask = mask.with_value(line.decode("latin-1").partition(": ")[2].strip())
        return mask

    def read(self, answer: Answer, ident: bytes, pool: Pool, *, tasks: bool = False) -> Raw:
        """The raw result in an answer; with `tasks` it may be a task. Raises McpError."""
        try:
            if not answer.body.isascii():
                answer.body.decode()
            result = read_answer(answer, ident)
            if self._modern and b'"requestState"' in answer.body and answer.connection.peer is not None:
                result = affinity.add_pod_tag(result, answer.connection.peer)
            if tasks and self._modern and answer.connection.peer is not None:
                result = affinity.add_pod_tag(result, answer.connection.peer, "taskId")
            return result
        except UnicodeDecodeError as error:
            raise NotMcp("the answer is not UTF-8", status=answer.status) from error
        except RecursionError as error:
            raise NotMcp("the answer is nested too deeply", status=answer.status) from error
        except NotMcp as error:
            if error.reason == "WrongAnswerID":
                pool.discard(answer)
            raise

    # PodListener

    def ping_data(self, pod: ServerPod) -> bytes:
        if self._modern:
            params = eras.modern_params(None, self._client)
            return self._modern_data(UpstreamRequest(self.next_id(), "server/discover", params, 0.0, 0))
        session = self.sessions.shared_at(pod)
        head = self._head if session is None else session.head
        return with_body(head, jsonrpc.request(self.next_id(), "ping", b"{}"))

    def on_pods_known(self) -> None:
        self.sessions.assign_to_pods()
        # calls that still wait for a connection are sent again, each to a picked pod: self.pool may connect to any pod,
        # but a shared legacy session now belongs to one
        for call in self.pool.outstanding_exchanges():
            if isinstance(call, HttpCall) and call.connection is None and call.withdraw_from_pod():
                self._send_again(call)

    def on_pod_ejected(self, pod: ServerPod, calls: list[Call]) -> None:
        """Send calls that may be repeated to other pods. Other calls keep waiting, because the pod may only be slow."""
        self.sessions.stop_opening(pod)
        for call in calls:
            if isinstance(call, HttpCall) and call.pod is not None and call.withdraw_from_pod():
                self._send_again(call)

    def on_pod_removed(self, address: Address) -> None:
        self.sessions.forget(address)

    # Internals

    def _send_again(self, call: HttpCall) -> None:
        session = call.session
        if session is not None and session.has_owner:
            self.end_request(session, call.sink)
        call.session = None
        call.pool = None
        call.connection = None
        call.cursor = None
        call.request = call.request.with_id(self.next_id())
        if not self._modern:
            self.send_in_session(call)
            return
        call.pod = pod = self._pools.pick()
        call.data = self._modern_data(call.request)
        call.pool = pod.pools.calls
        call.pool.submit(call)

    def _read_response(self, answer: Answer, ident: bytes) -> Raw:
        return self.read(answer, ident, self.pool)

    def _modern_data(self, request: UpstreamRequest) -> bytes:
        head = self._modern_heads.get(request.method)
        if head is None:
            method, version = request.method.encode(), eras.MODERN_VERSION.encode()
            head = b"%b%b: %b\r\n%b: %b\r\n" % (self._head, eras.H_VERSION, version, eras.H_METHOD, method)
            self._modern_heads[request.method] = head
        return self._serialize(head, request.name_lines, request)

    def _serialize(self, head: bytes, names: bytes, request: UpstreamRequest) -> bytes:
        """The complete HTTP request. A single join is faster than %-formatting, which grows its buffer."""
        method = self._methods.get(request.method)
        if method is None:
            method = self._methods[request.method] = _METHOD % request.method.encode()
        ident, params = request.id, request.params
        length = length_value(_ENVELOPE_BYTES + len(ident) + len(method) + len(params))
        lines, authorization = request.header_lines, request.authorization
        # one tuple, because unpacking another into it makes a list first, which costs 1,700 instructions
        return b"".join((head, names, lines, authorization, _LENGTH, length, _BODY_START, ident, method, params, _END))

    async def _send_modern(self, call: HttpCall, request: UpstreamRequest) -> None:
        """Send a request to the pod that its affinity tag names, or a `subscriptions/listen` over the control pool."""
        if request.affinity_tag is not None:
            pools = await self._pools.pools_for_tag(request.affinity_tag)
        else:
            pools = self._pools.pools_at(None)
        if not call.cancelled:
            call.data = self._modern_data(request)
            call.pool = pools.control if request.method == LISTEN else pools.calls
            call.pool.submit(call)

    def _send_in(self, call: HttpCall, session: ServerSession) -> None:
        """Send a request in a legacy session, after setting the log level that the client has requested."""
        request = call.request
        call.data = self._serialize(session.head, b"", request)
        call.session = session
        if request.authorization:
            session.authorization.line = request.authorization
        if session.has_owner:
            session.enter(call.sink)
            self._idle.mark_used(session)
            if session.client is not None:
                session.subscribe(request.method, call.sink)
        if request.level is not None:
            level_to_set = self.sessions.level_to_set(session, request.session, request.level)
            if level_to_set is not None or session.level_lock.locked():
                call.work = self.background.run(self._send_at_level(call, session, level_to_set), "send to")
                return
        self._submit(call, session)

    async def _send_at_level(self, call: HttpCall, session: ServerSession, level_to_set: str | None) -> None:
        try:
            await self.sessions.set_level(session, level_to_set)
        except asyncio.CancelledError:
            call.refuse(ConnectFailed("the connections to the server were closed", reason="Closed"))
            raise
        if not call.cancelled:
            self._submit(call, session)

    def _submit(self, call: HttpCall, session: ServerSession) -> None:
        if call.pod is not None:
            pool = call.pod.pools.calls
        elif session.pod is not None and (session.client is not None or self._pools.spreads_calls):
            pool = self.sessions.pools(session).calls
        else:
            pool = self.pool
        call.pool = pool
        pool.submit(call)


def _is_about_sessions(error: McpError, *, has_user_token: bool) -> bool:
    """Whether a refused handshake shows that the server has no legacy sessions for any client. `has_user_token`: the
    handshake had the token of one user, so an error may concern only this user.
    """
    if isinstance(error, HttpRefused):
        return error.status in _NO_SESSION_STATUSES if has_user_token else error.status not in (401, 403)
    if isinstance(error, HandshakeRefused) and has_user_token:
        return error.code in _ERA_CODES or error.status in _NO_SESSION_STATUSES
    return not has_user_token or isinstance(error, UnsupportedVersion)
