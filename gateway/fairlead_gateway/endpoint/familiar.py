"""The head of a connection's last request, so that the next one with the same head is not read anew.

Used by `endpoint.server` alone. A client repeats its heads from call to call; what differs is the length of the body,
and in the modern era the name of the tool.
Only a head whose request was let in is kept, and only in the form that `fairlead_mcp.http.heads` vouches for: one
Content-Length and nothing else about framing, so that equal bytes mean the same request.
"""

from __future__ import annotations

from typing import Self

from fairlead_gateway.endpoint.exchange import Exchange, Wire
from fairlead_gateway.endpoint.inbound import Headers
from fairlead_mcp.http.heads import KnownHead, NamedHead


class Familiar:
    """A head, and what was read of it."""

    __slots__ = ("_head", "_headers", "_named", "_target")

    def __init__(self, head: KnownHead, named: NamedHead | None, target: bytes, headers: Headers) -> None:
        self._head = head
        self._named = named
        self._target = target
        self._headers = headers

    @classmethod
    def of(cls, exchange: Exchange, data: bytes) -> Self | None:
        """The head in `data`, which is all that came of `exchange`; None where it is not to be kept."""
        if not (exchange.vetted and exchange.keep_alive and exchange.authority is None):
            return None
        head = KnownHead.of(data)
        if head is None:
            return None
        named = NamedHead.of(data) if b"mcp-name" in exchange.headers else None
        return cls(head, named, exchange.target, exchange.headers)

    def again(self, data: bytes, wire: Wire, limit: int) -> Exchange | None:
        """The request in `data`, if that is one whole request with this head and a body of at most `limit` bytes. Who
        asks and what that shows is looked up anew.
        """
        start, headers = self._head.body_start(data), self._headers
        if not start and self._named is not None:
            found = self._named.read(data)
            if found is not None:
                start, headers = found[0], {**headers, b"mcp-name": found[1]}
        if not start or len(data) - start > limit:
            return None
        exchange = Exchange(wire, b"POST", self._target)
        exchange.headers = headers
        exchange.body = data[start:]
        exchange.vetted = True
        return exchange
