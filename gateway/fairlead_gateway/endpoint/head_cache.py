"""Cache of request heads, which spares the parsing of a request with the same head as the request before.

A client's heads are the same for all calls, except for the Content-Length, and in the modern era the tool's name. Only
the head of a request that passed all checks is cached, and only in the form that `fairlead_mcp.http.heads` supports:
one Content-Length and no other framing, so that equal bytes mean an equal request. Connections share equal heads, but
each uses one only after a request with it passed the checks on that connection.
"""

from __future__ import annotations

import sys
from typing import Final

from fairlead_gateway.core.request import Headers
from fairlead_gateway.endpoint.exchange import HttpConnection, HttpExchange
from fairlead_mcp.http.heads import CacheBudget, KnownHead, NamedHead

ENTRIES: Final = 8_192
MAX_BYTES: Final = 1 << 20
"""Limit on the bytes of all cached heads, without the last head of each connection."""


class CachedHead:
    """Cached request head with its parsed target and headers."""

    __slots__ = ("_head", "_headers_by_name", "_memory", "_named", "_target", "headers")

    def __init__(
        self, head: KnownHead, name_pattern: NamedHead | None, target: bytes, headers: Headers, memory: CacheBudget
    ) -> None:
        self._head = head
        self._named = name_pattern
        self._target = target
        self.headers = headers
        self._memory = memory
        self._headers_by_name: dict[bytes, Headers] = {}
        """Variants of the headers by their `Mcp-Name`."""

    def match(self, data: bytes, connection: HttpConnection, limit: int) -> HttpExchange | None:
        """The request in `data`, if `data` is one complete request with this head and a body of at most `limit` bytes.

        Authentication and the look-up of the view take place as for any other request.
        """
        start, headers = self._head.body_start(data), self.headers
        if not start and self._named is not None:
            name_pattern = self._named.read(data, self._headers_by_name)
            if name_pattern is not None:
                start, headers = (
                    name_pattern[0],
                    self._headers_by_name.get(name_pattern[1]) or self._headers_with_name(name_pattern[1]),
                )
        if not start or len(data) - start > limit:
            return None
        return HttpExchange(connection, b"POST", self._target, headers, data[start:], vetted=True)

    def _headers_with_name(self, name: bytes) -> Headers:
        headers = {**self.headers, b"mcp-name": name}
        self._memory.keep(self._headers_by_name, name, headers, sys.getsizeof(headers) + 2 * len(name))
        return headers


class HeadCache:
    """Cached heads of all connections; equal heads are stored once."""

    def __init__(self, entries: int = ENTRIES, size: int = MAX_BYTES) -> None:
        self.memory = CacheBudget(entries, size)
        self._heads: dict[tuple[bytes, bytes, bytes], CachedHead] = {}

    def learn(self, exchange: HttpExchange, data: bytes) -> CachedHead | None:
        """Cache the head in `data`, the bytes of one exchange; None if it cannot be cached.

        Heads of clients that do not accept streams are not cached.
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
            name_pattern = NamedHead.of(data, self.memory) if b"mcp-name" in headers else None
            cached_head = CachedHead(head, name_pattern, exchange.target, headers, self.memory)
            self.memory.keep(self._heads, key, cached_head, 4 * head.size + sys.getsizeof(headers))
        else:
            # equal, and shared to save memory, as a connection keeps its last exchange
            exchange.headers = cached_head.headers
        return cached_head
