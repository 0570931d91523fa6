"""Makes sessions with servers over the network, given a server's endpoint and credential.

Sessions with child processes are made by `fairlead_mcp.host.ChildHost`.
"""

from __future__ import annotations

import ssl as tls
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from fairlead_api.documents.catalog import Credential, Endpoint, EventsEndpoint, HttpEndpoint, TcpEndpoint
from fairlead_mcp import via
from fairlead_mcp.child import START_SECONDS
from fairlead_mcp.errors import ConnectFailed, McpError
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.events import EventsOpener
from fairlead_mcp.http.older import OlderChannel
from fairlead_mcp.http.target import Target
from fairlead_mcp.messages import Message
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.session import CONNECT_SECONDS, CONNECTIONS, McpSession, http_pool, line_channel
from fairlead_mcp.stream_client import StreamClient
from fairlead_mcp.streams import OPEN_SECONDS, ClientSide, StreamOpener, StreamPolicy
from fairlead_mcp.tcp import TcpOpener

MethodObserver: TypeAlias = Callable[[str], None]
"""Called with the method of each notification; may not raise."""
PROCESS_SECONDS: Final = START_SECONDS + 10.0
"""Limit for connecting to a server whose process starts with the connection: longer than the limit of the stream
itself, whose error says more.
"""


class NetworkAccess(msgspec.Struct, frozen=True):
    """Credential and resolver for connections to a server."""

    credential: Credential
    resolve: Resolve | None = None
    """Resolver of host names; None for DNS."""
    installation: str = ""
    """Pseudonym of this installation for the header `Via` (RFC 9110, 7.6.3); empty for no header."""
    resolve_recent: Resolve | None = None
    """Resolver for checks of open streams, whose answers may be shared (`CachedNames.recent`); None: `resolve`."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {**self.credential.headers, **via.header(self.installation)}


def network_session(
    name: str,
    endpoint: Endpoint,
    access: NetworkAccess,
    *,
    on_method: MethodObserver | None = None,
    connections: int = CONNECTIONS,
    offering: Offering | None = None,
) -> McpSession:
    """Make a session, which is not connected yet. `name` is the server's name in messages; without an `offering` no
    client capability is declared.

    Raises McpError for an invalid address, header or certificate.
    """
    if isinstance(endpoint, HttpEndpoint):
        events = EventsEndpoint(url=endpoint.url, host_header=endpoint.host_header, ca_bundle=endpoint.ca_bundle)
        target = Target.from_url(endpoint.url, endpoint.host_header)
        return McpSession.over_http(
            target,
            headers=access.headers,
            pool=http_pool(target, ssl=trust(endpoint.ca_bundle), resolve=access.resolve, connections=connections),
            on_notification=_message_observer(on_method),
            offering=offering,
            events=lambda: line_channel(network_link(name, events, access, on_method=on_method, offering=offering)),
        )
    seconds = PROCESS_SECONDS if isinstance(endpoint, TcpEndpoint) else CONNECT_SECONDS
    link = network_link(name, endpoint, access, on_method=on_method, offering=offering)
    return McpSession.over_link(link, seconds)


def reached_endpoint(session: McpSession, endpoint: Endpoint) -> Endpoint:
    """Return the endpoint at which a session has reached its server: `endpoint`, possibly with a trailing slash added
    or removed, or an endpoint for HTTP+SSE at the same URL.
    """
    channel = session.channel
    if not isinstance(endpoint, HttpEndpoint) or not isinstance(channel, OlderChannel):
        return endpoint
    if channel.speaks_sse:
        return EventsEndpoint(url=endpoint.url, host_header=endpoint.host_header, ca_bundle=endpoint.ca_bundle)
    if not channel.redirected:
        return endpoint
    parts = urlsplit(endpoint.url)
    path = parts.path[:-1] if parts.path.endswith("/") else parts.path + "/"
    return msgspec.structs.replace(endpoint, url=parts._replace(path=path).geturl())


def network_link(
    name: str,
    endpoint: Endpoint,
    access: NetworkAccess,
    *,
    on_method: MethodObserver | None = None,
    offering: Offering | None = None,
) -> StreamClient:
    """Make the link to a server on stdio in a pod, or over HTTP+SSE; the first request opens it. `network_session`
    documents the parameters.

    Raises McpError for an endpoint of another kind, and for an invalid address, header or certificate.
    """
    opener: StreamOpener
    if isinstance(endpoint, TcpEndpoint):
        key = "" if endpoint.program else None
        opener = TcpOpener(
            endpoint.host,
            endpoint.port,
            access.credential.token,
            key=key,
            resolve=access.resolve,
            resolve_recent=access.resolve_recent,
        )
    elif isinstance(endpoint, EventsEndpoint):
        opener = EventsOpener(
            endpoint.url,
            host_header=endpoint.host_header,
            headers=access.headers,
            ssl=trust(endpoint.ca_bundle),
            resolve=access.resolve,
            resolve_recent=access.resolve_recent,
        )
    else:
        raise McpError(f"{name} has no network endpoint: it runs as a child process")
    open_seconds = START_SECONDS if opener.starts_process else OPEN_SECONDS
    policy = StreamPolicy(modern=False if isinstance(endpoint, EventsEndpoint) else None, open_seconds=open_seconds)
    return StreamClient(
        name, opener, policy, side=ClientSide(offering=offering, on_notification=_line_observer(on_method))
    )


def _message_observer(on_method: MethodObserver | None) -> Callable[[Message], None] | None:
    if on_method is None:
        return None

    def report_method(message: Message) -> None:
        if isinstance(message.method, str):
            on_method(message.method)

    return report_method


def _line_observer(on_method: MethodObserver | None) -> Callable[[str, bytes], None] | None:
    return None if on_method is None else lambda method, line: on_method(method)


def trust(ca_bundle: str | None) -> tls.SSLContext | None:
    """Make a TLS context that trusts only the CA certificates in `ca_bundle` (PEM). None without a bundle, so that the
    system's trust store applies. Raises ConnectFailed for an invalid bundle.
    """
    if ca_bundle is None:
        return None
    try:
        return tls.create_default_context(cadata=ca_bundle)
    except (tls.SSLError, ValueError) as error:
        raise ConnectFailed(f"spec.remote.caBundle cannot be read: {error}", reason="TLSFailed") from error
