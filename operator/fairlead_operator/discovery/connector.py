"""Opens sessions to servers over the network: implements `ports.Connector`.

Each discovery over HTTP opens connections of its own and closes them at its end: a server is discovered once in ten
minutes, which does not justify open connections. Sessions with a stdio server share a process (`server_processes`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from fairlead_api.documents.catalog import Credential, Endpoint, EventsEndpoint, HttpEndpoint, TcpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp import via
from fairlead_mcp.capabilities import decline
from fairlead_mcp.egress import Egress
from fairlead_mcp.errors import McpError
from fairlead_mcp.http.dial import Address, CachedNames, Dialer, Resolve, resolve_by_dns
from fairlead_mcp.http.target import Target
from fairlead_mcp.masking import Mask
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.oauth.discovery import discover_resource
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.opening import NetworkAccess, network_link, network_session
from fairlead_mcp.session import McpSession
from fairlead_mcp.stream_client import StreamClient
from fairlead_operator.discovery.server_processes import ServerProcesses
from fairlead_operator.discovery.token_clients import TokenClients
from fairlead_operator.idle_connection import IdleConnection
from fairlead_operator.ports import MethodObserver, TokenCredential

IDLE_CONNECT_SECONDS: Final = 1.5
"""Timeout for opening an idle connection: long enough to resend one lost packet, and short enough that the loss of a
server is detected within two seconds.
"""


class NetworkConnector:
    """Sessions over Streamable HTTP, HTTP+SSE and TCP.

    `resolve` maps host names to addresses; the default is DNS. `egress` restricts the addresses; `installation` is the
    name in the `Via` header of requests.
    """

    def __init__(self, *, resolve: Resolve | None = None, egress: Egress | None = None, installation: str = "") -> None:
        self._installation = installation
        self._resolve = resolve or resolve_by_dns
        self._names = CachedNames(self._resolve)
        """Look-ups of open streams, shared by those to one host."""
        self._egress = egress or Egress()
        self._clients = TokenClients()
        self._processes = ServerProcesses(self._process_link)

    @asynccontextmanager
    async def session(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        on_notification: MethodObserver | None = None,
        *,
        capabilities: bytes | None = None,
    ) -> AsyncIterator[McpSession]:
        """A session that has negotiated its protocol version; closed at the end of the context. Raises McpError."""
        resolve = self._egress.guard(self._resolve, key.namespace)
        offering = None if capabilities is None else Offering(capabilities, decline)

        def make_session(session_credential: Credential) -> McpSession:
            recent = self._egress.guard(self._names.recent, key.namespace)
            access = NetworkAccess(session_credential, resolve, self._installation, resolve_recent=recent)
            return network_session(str(key), endpoint, access, on_method=on_notification, offering=offering)

        async with AsyncExitStack() as stack:
            try:
                if isinstance(credential, TokenCredential):
                    client = await stack.enter_async_context(self._clients.share(key, endpoint, credential, resolve))
                    session = await client.open(stack, make_session)
                elif isinstance(endpoint, TcpEndpoint):
                    process_credential = credential or Credential()
                    shared_session = self._processes.session(
                        key, endpoint, process_credential, on_notification, capabilities
                    )
                    session = await stack.enter_async_context(shared_session)
                else:
                    session = await stack.enter_async_context(make_session(credential or Credential()))
                via.refuse_own(session.negotiated.gateways, self._installation)
                yield session
            except McpError as error:
                raise Mask(credential).error(error)  # noqa: B904 - the same error, masked

    def end_shared_process(self, key: ServerKey) -> None:
        """Implements Connector."""
        self._processes.renew(key)

    async def aclose(self) -> None:
        """Implements Connector."""
        await self._processes.aclose()

    def _process_link(
        self,
        key: ServerKey,
        endpoint: TcpEndpoint,
        credential: Credential,
        on_notification: MethodObserver | None,
        offering: Offering | None,
    ) -> StreamClient:
        access = NetworkAccess(
            credential,
            self._egress.guard(self._names, key.namespace),
            self._installation,
            resolve_recent=self._egress.guard(self._names.recent, key.namespace),
        )
        return network_link(str(key), endpoint, access, on_method=on_notification, offering=offering)

    async def open_idle_connection(
        self, key: ServerKey, endpoint: Endpoint, address: Address | None
    ) -> IdleConnection | None:
        """An idle connection to an HTTP server; None for a stdio server, where each connection would start a process.

        `address` is where the server was last reached; it is tried if the host name cannot be resolved.
        """
        if not isinstance(endpoint, HttpEndpoint | EventsEndpoint):
            return None
        target = Target.from_url(endpoint.url)
        resolve = self._egress.guard(self._resolve, key.namespace)

        async def addresses(host: str, port: int) -> list[Address]:
            try:
                return await resolve(host, port)
            except OSError:
                if address is None:
                    raise
                return [address]

        dialer = Dialer(target.host, target.port, None, None, addresses, IDLE_CONNECT_SECONDS)
        return await dialer.connect(IdleConnection)

    async def offers_sign_in(self, key: ServerKey, endpoint: HttpEndpoint) -> bool:
        """Whether the server publishes protected resource metadata at one of its well-known URLs (RFC 9728)."""
        access = TokenAccess(
            endpoint.url,
            self._egress.guard(self._resolve, key.namespace),
            host_header=endpoint.host_header,
            server_ca_bundle=endpoint.ca_bundle,
        )
        try:
            return await discover_resource(access, "") is not None
        except GrantFailed:
            return False
