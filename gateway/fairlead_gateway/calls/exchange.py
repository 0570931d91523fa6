"""The client's side of one request, as the path of a call sees it.

Implemented by `endpoint.exchange`, and by `calls.direct` for the gateway's own calls. A class and no Protocol: what is
compiled reads the attributes of its own classes at a tenth of the price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_gateway.core.identity import ANONYMOUS, IDENTITY, Identity
from fairlead_gateway.endpoint.asked import Headers
from fairlead_mcp.http.answer import Carrier
from fairlead_mcp.http.exchange import Arrival


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """One request that waits for its answer. Everything is a no-op once the client is gone."""

    __slots__ = ("headers", "identity", "tier")

    def __init__(self, headers: Headers, identity: Identity, tier: str | None = None) -> None:
        self.headers = headers
        """Those of the request that anybody here wants."""
        self.identity = identity
        """Who asks."""
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
        """Whether the client does not read what it is sent: whoever has more to tell should wait."""
        raise NotImplementedError

    def when_clear(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called, once, when it reads again, or is gone."""
        raise NotImplementedError

    def pause(self) -> None:
        """The server ended its stream to be asked for the rest later: so may the client's, if it can come back."""
        raise NotImplementedError

    def arrival(self, source: Carrier) -> Arrival:
        """Begin to count the answer of a server, which is large, against the budget of the asker."""
        raise NotImplementedError

    def answer(self, status: int, *body: bytes | Raw) -> None:
        """The JSON-RPC answer, in parts. Once per exchange, or `succeed`."""
        raise NotImplementedError

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        """The answer where all is well: the result of the request with that id, both raw."""
        raise NotImplementedError


def agent_of(exchange: Exchange) -> str:
    """Who is counted as one where agents share something: askers without a name by their address."""
    return agent_name(exchange.identity, exchange.address)


def agent_name(identity: Identity, address: str) -> str:
    """As `asker`."""
    return f"anonymous {address}" if identity.kind == "anonymous" else identity.principal


def agent_in(scope: Mapping[str, Any], peer: tuple[str, int] | None) -> str:
    """As `asker`, of a request to the ASGI application; `peer` is the other side of its connection."""
    address, _ = scope.get("client") or peer or ("", 0)
    return agent_name(scope.get(IDENTITY, ANONYMOUS), address)
