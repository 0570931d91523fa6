"""The head of a connection's last request, so that the next one with the same head is not read anew.

Used by `endpoint.server` alone. A client repeats its heads from call to call; what differs is the length of the body.
Only a head whose request was let in is kept, and only in the form that `fairlead_mcp.http.heads` vouches for: one
Content-Length and nothing else about framing, so that equal bytes mean the same request.
"""

from __future__ import annotations

from typing import Self

from fairlead_gateway.endpoint.exchange import Exchange, Wire
from fairlead_gateway.endpoint.inbound import Headers
from fairlead_gateway.selection.view import View
from fairlead_mcp.http.heads import KnownHead


class Familiar:
    """A head, and what was read of it."""

    __slots__ = ("_head", "_headers", "_target")

    def __init__(self, head: KnownHead, target: bytes, headers: Headers) -> None:
        self._head = head
        self._target = target
        self._headers = headers

    @classmethod
    def of(cls, exchange: Exchange, data: bytes, target: bytes) -> Self | None:
        """The head in `data`, which is all that came of `exchange`; None where it is not to be kept."""
        if not (exchange.vetted and exchange.keep_alive and exchange.authority is None):
            return None
        head = KnownHead.of(data)
        return None if head is None else cls(head, target, exchange.headers)

    def again(self, data: bytes, wire: Wire, views: dict[bytes, View], limit: int) -> Exchange | None:
        """The request in `data`, if that is one whole request with this head and a body of at most `limit` bytes."""
        start = self._head.body_start(data)
        view = views.get(self._target)
        if not start or view is None or len(data) - start > limit:
            return None
        exchange = Exchange(wire, b"POST", view)
        exchange.headers = self._headers
        exchange.body = data[start:]
        exchange.vetted = True
        return exchange
