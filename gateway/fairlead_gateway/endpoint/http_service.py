"""State that all client connections of one port share: limits, counters, and the handler of MCP requests."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.endpoint.client_limits import ClientLimits
from fairlead_gateway.endpoint.event_store import Cancellable
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.head_cache import HeadCache
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.limits.shares import ConnectionLimiter
from fairlead_gateway.policy.view import View
from fairlead_mcp import jsonrpc


@dataclass(frozen=True)
class PortLimits:
    """Limits on the clients of a port, and the trusted proxies that determine client addresses."""

    bounds: ClientLimits
    proxies: TrustedProxies
    buffers: AnswerBuffers
    """Counters and limits of the memory for answers."""


class HttpService:
    """Base class of `McpEndpoint`. An instance of this class itself rejects MCP requests, on a port without MCP
    endpoints.

    A class instead of a Protocol, because mypyc reads attributes of compiled classes ten times as fast.
    """

    def __init__(self, limits: PortLimits, counts: ShareCounts | None = None) -> None:
        """`counts` counts connections and rejections."""
        bounds = limits.bounds
        self.bounds = bounds
        self.proxies = limits.proxies
        self.buffers = limits.buffers
        self.connection_limiter = ConnectionLimiter(
            bounds.connections, bounds.connections_each, limits.proxies.many_share, counts
        )
        self.unread_connections = 0
        """Number of connections that were closed because their clients did not read."""
        self.head_cache = HeadCache()
        self.targets: dict[bytes, View] = {}
        """Views of MCP endpoints, by request target in the form that clients usually send: a plain path."""
        self.retiring = False
        """Whether each response closes its connection: the gateway stops, and clients reconnect to another replica."""
        self.closed = False
        """Whether new connections are closed at once."""

    @property
    def cancels_abandoned(self) -> bool:
        """Whether calls of legacy clients are cancelled when the client disconnects."""
        return False

    @property
    def in_progress(self) -> list[Cancellable]:
        """Calls and tasks that clients are waiting for."""
        return []

    def serve(self, exchange: HttpExchange) -> None:
        """Answer a request whose target has the shape of an MCP endpoint. Never raises."""
        exchange.keep_alive = False
        exchange.reject(
            Rejection(
                404,
                jsonrpc.INVALID_REQUEST,
                "this is the operations port, which has no MCP endpoints: send the request to the port of "
                "FAIRLEAD_PORT",
            )
        )

    def count_refused(self, status: int) -> None:
        """Count a request or connection that was rejected with an HTTP status."""

    def retire(self) -> None:
        """Close each connection after its next response."""
        self.retiring = True

    def sweep(self, now: float) -> None:
        """Remove expired state. Must be called once a second. `now` is in seconds of the event loop's clock."""

    async def wait_until_idle(self) -> None:
        """Wait until no call is in progress."""
