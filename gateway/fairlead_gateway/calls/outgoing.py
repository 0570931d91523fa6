"""Builds the request to a server from that of a client: era, names, trace, token, state, capabilities."""

from __future__ import annotations

from msgspec import Raw

from fairlead_gateway.calls import translate
from fairlead_gateway.calls.context import CallContext
from fairlead_gateway.calls.targets import continues
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.exchange import Exchange
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.tracing.trace import TRACEPARENT, carried
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.log_levels import DEFAULT_LEVEL
from fairlead_mcp import jsonrpc
from fairlead_mcp.via import VIA, passed_on


class Outgoing:
    """Parameters of one request to a server beside those that its client sent."""

    __slots__ = (
        "client", "deadline", "follows", "level", "members", "modern", "param_lines", "progress", "session", "traced",
    )  # fmt: skip

    def __init__(
        self,
        members: jsonrpc.RawObject,
        deadline: float,
        modern: bool,
        progress: bool,
        level: str | None,
        client: ClientPeer | None,
        session: bytes | None,
        param_lines: bytes,
        traced: bool,
        follows: bool,
    ) -> None:
        self.members = members
        """Params, which are used up."""
        self.deadline = deadline
        self.modern = modern
        """Era of the server."""
        self.progress = progress
        """Whether the client asked for progress."""
        self.level = level
        self.client = client
        self.session = session
        self.param_lines = param_lines
        self.traced = traced
        """Whether its attempts have spans, which name the trace themselves."""
        self.follows = follows
        """Whether it goes on with a call whose state the gateway kept to itself."""


def upstream_request(
    context: CallContext, route: Route, request: McpRequest, exchange: Exchange, known: Outgoing
) -> UpstreamRequest:
    """Raises RpcError for a `requestState` of another principal, and msgspec.DecodeError where `_meta` is no object."""
    members, modern, client = known.members, known.modern, known.client
    pin: bytes | None = None
    if continues(members):
        if request.modern:
            members = context.state_signer.verified(members, exchange.identity)
        if request.modern or known.follows:
            members, pin = affinity.untagged(members)
    headers, lines = exchange.headers, b""
    if not known.traced and TRACEPARENT in headers:
        members, lines = carried(members, headers)
    if VIA in headers:
        lines += passed_on(headers[VIA])
    ident = route.upstream.next_id()
    name: Raw | None = route.name_raw if route.tool is not None else None
    if not known.progress and request.modern == modern:
        params = jsonrpc.encode(members) if name is None else translate.renamed(members, name)
    else:
        params = translate.params(
            members,
            name,
            from_modern=request.modern,
            to_modern=modern,
            token=ident if known.progress else None,
            client=context.client,
            capabilities=None if client is None else client.features,
            log_level=b'"%b"' % (known.level or DEFAULT_LEVEL).encode() if modern and not request.modern else None,
        )
    return UpstreamRequest(
        ident,
        request.method,
        params,
        known.deadline,
        route.max_bytes,
        route.name_lines + known.param_lines if known.param_lines else route.name_lines,
        lines,
        exchange,
        client,
        known.session,
        None if modern else known.level,
        pin,
        known.progress or known.level is not None or (client is not None and not modern),  # which may ask in mid-call
        bool(route.requires),
    )
