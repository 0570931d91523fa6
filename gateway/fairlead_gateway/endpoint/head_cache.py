"""Cache of request heads, so that a request with the head of the one before is not parsed again.

A client repeats its heads from call to call; what differs is the length of the body, and in the modern era the name of
the tool.
Only the head of a request that passed all checks is cached, and only in the form that `fairlead_mcp.http.heads` takes:
one Content-Length and no other framing, so that equal bytes mean an equal request. Connections share the entries of
equal heads; a connection uses one only after a request with it passed the checks there.
"""

from __future__ import annotations

import sys
from typing import Final

from fairlead_gateway.core.request import Headers
from fairlead_gateway.endpoint.exchange import HttpConnection, HttpExchange
from fairlead_mcp.http.heads import CacheBudget, KnownHead, NamedHead

ENTRIES: Final = 8_192
MOST_BYTES: Final = 1 << 20
"""Bytes of all cached heads, beside the last head of each connection."""


class CachedHead:
    """Request head with its parsed target and headers."""

    __slots__ = ("_head", "_memory", "_named", "_of_name", "_target", "headers")

    def __init__(
        self, head: KnownHead, named: NamedHead | None, target: bytes, headers: Headers, memory: CacheBudget
    ) -> None:
        self._head = head
        self._named = named
        self._target = target
        self.headers = headers
        self._memory = memory
        self._of_name: dict[bytes, Headers] = {}
        """Headers that differ in `Mcp-Name` alone."""

    def again(self, data: bytes, connection: HttpConnection, limit: int) -> HttpExchange | None:
        """The request in `data`, if that is one whole request with this head and a body of at most `limit` bytes. Its
        principal and view are looked up as for any other.
        """
        start, headers = self._head.body_start(data), self.headers
        if not start and self._named is not None:
            named = self._named.read(data, self._of_name)
            if named is not None:
                start, headers = named[0], self._of_name.get(named[1]) or self._with(named[1])
        if not start or len(data) - start > limit:
            return None
        return HttpExchange(connection, b"POST", self._target, headers, data[start:], vetted=True)

    def _with(self, name: bytes) -> Headers:
        headers = {**self.headers, b"mcp-name": name}
        self._memory.keep(self._of_name, name, headers, sys.getsizeof(headers) + 2 * len(name))
        return headers


class HeadCache:
    """Heads of all connections, each stored once."""

    def __init__(self, entries: int = ENTRIES, size: int = MOST_BYTES) -> None:
        self.memory = CacheBudget(entries, size)
        self._heads: dict[tuple[bytes, bytes, bytes], CachedHead] = {}

    def learn(self, exchange: HttpExchange, data: bytes) -> CachedHead | None:
        """Cache the head in `data`, the bytes of one exchange; None where it cannot be cached: that of a client without
        streams must be looked at each time.
        """
        if not (exchange.vetted and exchange.keep_alive and exchange.can_stream and exchange.authority is None):
            return None
        head = KnownHead.of(data, self.memory)
        if head is None:
            return None
        key = (*head.parts, exchange.target)
        cached_head = self._heads.get(key)
        if cached_head is None:
            headers = exchange.headers
            named = NamedHead.of(data, self.memory) if b"mcp-name" in headers else None
            cached_head = CachedHead(head, named, exchange.target, headers, self.memory)
            self.memory.keep(self._heads, key, cached_head, 4 * head.size + sys.getsizeof(headers))
        else:
            exchange.headers = cached_head.headers  # equal; connections hold on to the last exchange that was read
        return cached_head
