"""The head of a connection's last request, so that the next one with the same head is not read anew.

Used by `endpoint.server` alone. A client repeats its heads from call to call; what differs is the length of the body,
and in the modern era the name of the tool.
Only a head whose request was let in is kept, and only in the form that `fairlead_mcp.http.heads` vouches for: one
Content-Length and nothing else about framing, so that equal bytes mean the same request.
"""

from __future__ import annotations

from typing import Final, Self

from fairlead_gateway.endpoint.asked import Headers
from fairlead_gateway.endpoint.exchange import Exchange, Wire
from fairlead_mcp.http.heads import KnownHead, NamedHead

NAMES: Final = 256
"""That are remembered of a connection."""


class Familiar:
    """A head, and what was read of it."""

    __slots__ = ("_head", "_headers", "_named", "_of_name", "_target")

    def __init__(self, head: KnownHead, named: NamedHead | None, target: bytes, headers: Headers) -> None:
        self._head = head
        self._named = named
        self._target = target
        self._headers = headers
        self._of_name: dict[bytes, Headers] = {}
        """Headers that differ in `Mcp-Name` alone."""

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
                start, headers = found[0], self._of_name.get(found[1]) or self._with(found[1])
        if not start or len(data) - start > limit:
            return None
        return Exchange(wire, b"POST", self._target, headers, data[start:], vetted=True)

    def _with(self, name: bytes) -> Headers:
        if len(self._of_name) >= NAMES:
            self._of_name.clear()
        headers = self._of_name[name] = {**self._headers, b"mcp-name": name}
        return headers
