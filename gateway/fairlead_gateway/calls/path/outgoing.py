"""Builds the request to a server from that of a client: era, names, trace, token, state, capabilities."""

from __future__ import annotations

from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.tasks.client_tasks import declaring
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.tracing.trace import TRACEPARENT, carried
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.log_levels import DEFAULT_LEVEL
from fairlead_mcp import jsonrpc
from fairlead_mcp.capabilities import for_method
from fairlead_mcp.methods import EXTENDED
from fairlead_mcp.via import VIA, passed_on


def upstream_request(
    context: CallContext,
    route: Route,
    request: McpRequest,
    exchange: Exchange,
    members: jsonrpc.RawObject,
    deadline: float,
    modern: bool,
    level: str | None,
    client: ClientPeer | None,
    *,
    session: bytes | None = None,
    param_lines: bytes = b"",
    traced: bool = False,
    continued: bool = False,
    follows: bool = False,
    tasks: bool = False,
) -> UpstreamRequest:
    """The request for a server of the era `modern`. `members` are its params, which are used up; `traced`: its attempts
    have spans, which name the trace themselves; `continued`: it goes on with a call that was answered by questions, and
    `follows` where the gateway kept its state to itself; `tasks`: the answer may be a task, as the client or the
    gateway declares (SEP-2663).

    Raises RpcError for a `requestState` of another principal or server, and msgspec.DecodeError where `_meta` is no
    object.
    """
    instance: bytes | None = None
    if continued:
        if request.modern:
            members = context.state_signer.verified(members, route.server.key, exchange.identity)
        if request.modern or follows:
            members, instance = affinity.untagged(members)
    if route.task is not None:
        instance = route.task.pod  # with answers to its questions too, which have no state
    headers, lines = exchange.headers, b""
    if not traced and TRACEPARENT in headers:
        members, lines = carried(members, headers)
    if VIA in headers:
        lines += passed_on(headers[VIA])
    ident = route.upstream.next_id()
    name = route.name_raw
    if request.token is None and request.modern == modern:
        params = jsonrpc.encode(members) if name is None else translate.renamed(members, route.member, name)
    else:
        features = None if client is None else client.features
        params = translate.params(
            members,
            name,
            member=route.member,
            from_modern=request.modern,
            to_modern=modern,
            token=request.token,
            ours=ident,
            client=context.client,
            capabilities=features if request.modern else _declared(features, request.method, tasks=tasks),
            log_level=b'"%b"' % (level or DEFAULT_LEVEL).encode() if modern and not request.modern else None,
        )
    return UpstreamRequest(
        ident,
        request.method,
        params,
        deadline,
        route.max_bytes,
        route.name_lines + param_lines if param_lines else route.name_lines,
        lines,
        exchange,
        None if tasks else client,
        session,
        None if modern else level,
        instance,
        # which may ask in mid-call, or go on by itself
        request.token is not None or level is not None or (client is not None and not modern) or tasks,
        route.requires != (),
        tasks,
        route.idempotent and not continued and not tasks,
    )


def _declared(capabilities: bytes | None, method: str, *, tasks: bool) -> bytes | None:
    """Capabilities of a legacy client with the extensions that the gateway has for it."""
    if tasks:
        return declaring(capabilities)
    return for_method(capabilities or b"{}", method) if method in EXTENDED else capabilities
