"""One request of a client and the way to answer it (an HTTP exchange, RFC 9110 section 3.4).

Implemented by `endpoint.exchange`, and by `calls.path.direct` for the gateway's own calls. A class and no Protocol:
what is compiled reads the attributes of its own classes at a tenth of the price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_gateway.core.client_message import Headers
from fairlead_gateway.core.identity import ANONYMOUS, IDENTITY, Identity
from fairlead_mcp.addresses import client_of
from fairlead_mcp.http.answer import Carrier
from fairlead_mcp.http.exchange import Arrival


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """One request that waits for its answer. Everything is a no-op once the client is gone."""

    __slots__ = ("headers", "identity", "tier")

    def __init__(self, headers: Headers, identity: Identity, tier: str | None = None) -> None:
        self.headers = headers
        """Headers of the request that the path of a call reads, by lower-case name."""
        self.identity = identity
        """Principal of the request."""
        self.tier = tier
        """The latency tier whose tools the client sees."""

    @property
    def address(self) -> str:
        """IP address of the client; empty where it has none."""
        raise NotImplementedError

    @property
    def gone(self) -> bool:
        """Whether the client closed the connection."""
        raise NotImplementedError

    def notify(self, message: bytes) -> bool:
        """Send a message ahead of the answer, which then follows it as an event. False: it was dropped, as the client
        is gone, has long not read, or cannot take a stream.
        """
        raise NotImplementedError

    @property
    def congested(self) -> bool:
        """Whether the client does not read what it is sent, so that senders should wait (backpressure)."""
        raise NotImplementedError

    def when_writable(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called, once, when the client reads again, or is gone."""
        raise NotImplementedError

    def pause(self) -> None:
        """End the client's stream where it can be resumed: the server ended its own, to be polled (SEP-1699)."""
        raise NotImplementedError

    def arrival(self, source: Carrier) -> Arrival:
        """Begin to count a server's large answer against the budget of the agent."""
        raise NotImplementedError

    def answer(self, status: int, *body: bytes | Raw) -> None:
        """Send the JSON-RPC answer, in parts. To be called once, unless `succeed` is."""
        raise NotImplementedError

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        """Send the result of the request with that id, both raw JSON."""
        raise NotImplementedError


def agent_of(exchange: Exchange) -> str:
    """Agent that a request is counted for: its principal, or the address or /64 network of an anonymous client."""
    return agent_name(exchange.identity, exchange.address)


def agent_name(identity: Identity, address: str) -> str:
    """Agent of a principal at an address."""
    return f"anonymous {client_of(address)}" if identity.kind == "anonymous" else identity.principal


def agent_in(scope: Mapping[str, Any], peer: tuple[str, int] | None = None) -> str:
    """Agent of a request to the ASGI application; `peer` is the other side of its connection."""
    address, _ = scope.get("client") or peer or ("", 0)
    return agent_name(scope.get(IDENTITY, ANONYMOUS), address)
