"""Builds the request to a server from that of a client: era, names, trace, token, state, capabilities."""

from __future__ import annotations

from msgspec import Raw

from fairlead_gateway.calls.path.attempts import Attempts, ClientCall
from fairlead_gateway.calls.tasks.client_tasks import declaring
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.tracing.trace import TRACEPARENT, carry
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.log_levels import DEFAULT_LEVEL
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.capabilities import for_method
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.methods import EXTENDED
from fairlead_mcp.via import VIA, make_via_line


def upstream_request(
    call: ClientCall,
    attempts: Attempts,
    members: RawObject,
    client: ClientPeer | None,
    *,
    modern: bool,
    tasks: bool = False,
) -> UpstreamRequest:
    """The request of a call for a server of the era `modern`. `attempts` send it: those of the call, or of another that
    bridges the eras for it. `members` are its params, which are used up; `client` is known to the server; `tasks`: the
    answer may be a task, as the client or the gateway declares (SEP-2663).

    Raises RpcError for a `requestState` of another principal or server, and msgspec.DecodeError where `_meta` is no
    object.
    """
    route, request, headers = attempts.route, call.request, call.exchange.headers
    instance: bytes | None = None
    if call.continued:
        members, instance = _resume(call, members)
    if route.task is not None:
        instance = route.task.pod  # with answers to its questions too, which have no state
    lines = b""
    if attempts.span is None and TRACEPARENT in headers:  # else each attempt has a span, which names the trace itself
        members, lines = carry(members, headers)
    if VIA in headers:
        lines += make_via_line(headers[VIA])
    if route.name_raw is not None:
        members[route.member] = route.name_raw
    ident = route.upstream.next_id()
    if request.token is None and request.modern == modern:
        params = jsonrpc.encode(members)
    else:
        declared = _declare(call, client, tasks=tasks) if modern and not request.modern else None
        params = translate.params(members, declared, request.token, ident, from_modern=request.modern, to_modern=modern)
    deadline = attempts.deadline if request.token is None else attempts.watch_deadline()
    made = UpstreamRequest(ident, request.method, params, deadline, route.max_bytes)
    made.name_lines = route.name_lines + call.param_lines if call.param_lines else route.name_lines
    made.header_lines = lines
    made.counter = call.exchange
    made.client = None if tasks else client
    made.session = call.own_session
    made.level = None if modern else call.level
    made.instance = instance
    # which may ask in mid-call, or go on by itself
    asks = client is not None and not modern
    made.listens = request.token is not None or call.level is not None or asks or tasks
    made.gated = route.requires != ()
    made.tasks = tasks
    made.idempotent = route.idempotent and not call.continued and not tasks
    return made


def _resume(call: ClientCall, members: RawObject) -> tuple[RawObject, bytes | None]:
    """Params of a request that goes on with a call which was answered by questions, and the tag of the pod that asked
    them. Raises RpcError for the state of another principal or server.
    """
    request, instance = call.request, None
    if request.modern:
        members = call.context.state_signer.verify(members, call.route.server.key, call.exchange.identity)
    if request.modern or call.rounds:  # else the state is a legacy client's own, not one that the gateway has kept
        members, instance = affinity.untagged(members)
    return members, instance


def _declare(call: ClientCall, client: ClientPeer | None, *, tasks: bool) -> RawObject:
    """Members of `_meta` that a modern server gets for a legacy client: its capabilities, with the extensions that the
    gateway has for it, and its level of log messages.
    """
    capabilities = _capabilities(call.request, None if client is None else client.features, tasks=tasks)
    declared = eras.meta_members(call.context.client, capabilities or b"{}")
    declared[eras.META_LOG_LEVEL] = Raw(b'"%b"' % (call.level or DEFAULT_LEVEL).encode())
    return declared


def _capabilities(request: McpRequest, features: bytes | None, *, tasks: bool) -> bytes | None:
    if tasks:
        return declaring(features)
    return for_method(features or b"{}", request.method) if request.method in EXTENDED else features
