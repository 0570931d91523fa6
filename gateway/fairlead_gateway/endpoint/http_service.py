"""Common ground of the connections of one port: limits, counts, and requests for MCP endpoints, where it has any."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.endpoint.client_limits import ClientLimits
from fairlead_gateway.endpoint.connection_limiter import ConnectionLimiter
from fairlead_gateway.endpoint.event_store import Cancellable
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.head_cache import HeadCache
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.policy.view import View
from fairlead_mcp import jsonrpc


@dataclass(frozen=True)
class PortLimits:
    """Limits on the clients of a port, and how these are told apart."""

    bounds: ClientLimits
    proxies: TrustedProxies
    buffers: AnswerBuffers


class HttpService:
    """Service of a port without MCP endpoints; `McpEndpoint` is that of clients' port. A class and no Protocol, as
    compiled code reads the attributes of its own classes at a tenth of the price.
    """

    def __init__(self, limits: PortLimits, counts: ShareCounts | None = None) -> None:
        """`counts` gets the number of connections."""
        bounds = limits.bounds
        self.bounds = bounds
        self.proxies = limits.proxies
        self.buffers = limits.buffers
        self.connection_limiter = ConnectionLimiter(
            bounds.connections, bounds.connections_each, limits.proxies.many_share, counts
        )
        self.head_cache = HeadCache()
        self.targets: dict[bytes, View] = {}
        """MCP endpoints by the usual form of their request targets."""
        self.retiring = False
        """Whether each response closes its connection, so that clients open new ones at another replica."""
        self.closed = False
        """Whether connections that come now are closed at once."""

    @property
    def cancels_abandoned(self) -> bool:
        """Whether calls of legacy clients that went away are cancelled."""
        return False

    @property
    def in_progress(self) -> list[Cancellable]:
        """Calls and tasks that clients wait for."""
        return []

    def serve(self, exchange: HttpExchange) -> None:
        """Answer a request whose target has the shape of an MCP endpoint. Never raises."""
        exchange.keep_alive = False
        exchange.reject(Rejection(404, jsonrpc.INVALID_REQUEST, "this port has no MCP endpoints"))

    def count_refused(self, status: int) -> None:
        """Count a request, or a connection, that is refused with an HTTP status."""

    def retire(self) -> None:
        """Ask clients from now on to use another connection."""
        self.retiring = True

    def sweep(self, now: float) -> None:
        """Look after what has a time, once a second. `now` is the loop's time in seconds."""

    async def quiet(self) -> None:
        """Wait for some of `in_progress`; returns at once where there is nothing."""
