"""The client's side of one request, as the path of a call sees it.

Pure declarations, implemented by `endpoint.server`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from fairlead_gateway.endpoint.asked import Headers
from fairlead_gateway.identity.model import Identity


class Exchange(Protocol):
    """One request that waits for its answer. Everything is a no-op once the client is gone."""

    identity: Identity
    """Who asks."""
    headers: Headers
    """Those of the request that anybody here wants."""

    @property
    def address(self) -> str:
        """IP address of the client; empty where it has none."""
        ...

    @property
    def gone(self) -> bool:
        """Whether the client closed the connection."""
        ...

    tier: str | None
    """The latency tier whose tools the client sees."""

    def notify(self, message: bytes) -> bool:
        """Send a message ahead of the answer, which then follows it as an event. False: it was dropped, as the client
        is gone, has long not read, or cannot take a stream.
        """
        ...

    @property
    def congested(self) -> bool:
        """Whether the client does not read what it is sent: whoever has more to tell should wait."""
        ...

    def when_clear(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called, once, when it reads again, or is gone."""
        ...

    def pause(self) -> None:
        """The server ended its stream to be asked for the rest later: so may the client's, if it can come back."""
        ...

    def answer(self, status: int, *body: bytes | Raw) -> None:
        """The JSON-RPC answer, in parts. Once per exchange, or `succeed`."""
        ...

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        """The answer where all is well: the result of the request with that id, both raw."""
        ...


def asker(exchange: Exchange) -> str:
    """Who is counted as one where agents share something: askers without a name by their address."""
    identity = exchange.identity
    return f"anonymous {exchange.address}" if identity.kind == "anonymous" else identity.principal
