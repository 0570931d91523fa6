"""Builds the request that a call sends to its server: translates it to the server's era and names, and sets trace
context, progress token, `requestState` and capabilities.
"""

from __future__ import annotations

from msgspec import Raw

from fairlead_gateway.calls.path.attempts import Attempts
from fairlead_gateway.calls.path.client_call import ClientCall
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
    """The upstream request of a call, for a modern or a legacy server.

    `attempts` will send the request: the call's own, or those of its `BridgedCall`. `members` are the params, and are
    changed. `client` is the client whose own session with the server is used, if any. `tasks` tells that the client or
    the gateway declares the tasks extension, so that the answer may be a task (SEP-2663).

    Raises RpcError for a `requestState` of another principal or server, and msgspec.DecodeError if `_meta` is not an
    object.
    """
    route, request, headers = attempts.route, call.request, call.exchange.headers
    instance: bytes | None = None
    if call.continued:
        members, instance = _resume(call, members)
    if route.task is not None:
        instance = route.task.pod  # requests about a task have no `requestState` that could name the pod
    lines = b""
    if attempts.span is None and TRACEPARENT in headers:  # with tracing, each attempt sends its own span instead
        members, lines = carry(members, headers)
    if VIA in headers:
        lines += make_via_line(headers[VIA])
    if route.shape is not None:
        members = route.shape.add_secrets(members)
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
    # a legacy server may send requests to the client during the call
    asks = client is not None and not modern
    made.listens = request.token is not None or call.level is not None or asks or tasks
    made.gated = route.requires != ()
    made.tasks = tasks
    made.idempotent = route.idempotent and not call.continued and not tasks
    return made


def _resume(call: ClientCall, members: RawObject) -> tuple[RawObject, bytes | None]:
    """Params of a request that continues a call after `input_required`, and the tag of the pod that has its state.

    Raises RpcError for a `requestState` of another principal or server.
    """
    request, instance = call.request, None
    if request.modern:
        members = call.context.state_signer.verify(members, call.route.server.key, call.exchange.identity)
    if request.modern or call.rounds:  # a legacy client was given no `requestState`: its own member is not a tagged one
        members, instance = affinity.remove_tag(members)
    return members, instance


def _declare(call: ClientCall, client: ClientPeer | None, *, tasks: bool) -> RawObject:
    """Members of `_meta` for a modern server, on behalf of a legacy client: its capabilities, the extensions that the
    gateway adds, and its log level.
    """
    capabilities = _capabilities(call.request, None if client is None else client.features, tasks=tasks)
    declared = eras.meta_members(call.context.client, capabilities or b"{}")
    declared[eras.META_LOG_LEVEL] = Raw(b'"%b"' % (call.level or DEFAULT_LEVEL).encode())
    return declared


def _capabilities(request: McpRequest, features: bytes | None, *, tasks: bool) -> bytes | None:
    if tasks:
        return declaring(features)
    return for_method(features or b"{}", request.method) if request.method in EXTENDED else features
