"""Cache of HTTP request heads: a request with the same head as the previous request need not be parsed.

The heads of a client's calls differ only in the Content-Length and, in the modern era, in `Mcp-Name`. A head is cached
only if its request passed all checks. It also must have one Content-Length and no other framing header, so that equal
bytes mean an equal request (`fairlead_mcp.http.heads`). Connections share equal heads in memory, but a connection uses
a head only after a request with this head has passed the checks on the same connection.
"""

from __future__ import annotations

import sys
from typing import Final

from fairlead_gateway.core.request import Headers
from fairlead_gateway.endpoint.exchange import HttpConnection, HttpExchange
from fairlead_mcp.http.heads import CacheBudget, KnownHead, NamedHead

ENTRIES: Final = 8_192
"""Maximum number of entries of the cache. Entries are heads, and the headers of a head with another `Mcp-Name`."""
MAX_BYTES: Final = 1 << 20
"""Maximum number of bytes of all cached heads, without the last head of each connection."""


class CachedHead:
    """Cached request head with its parsed target and headers."""

    __slots__ = ("_head", "_headers_by_name", "_memory", "_name_pattern", "_target", "headers")

    def __init__(
        self, head: KnownHead, name_pattern: NamedHead | None, target: bytes, headers: Headers, memory: CacheBudget
    ) -> None:
        self._head = head
        self._name_pattern = name_pattern
        self._target = target
        self.headers = headers
        self._memory = memory
        self._headers_by_name: dict[bytes, Headers] = {}
        """Copies of `headers` with another `Mcp-Name`, by that name."""

    def match(self, data: bytes, connection: HttpConnection, limit: int) -> HttpExchange | None:
        """The request in `data`; None unless `data` is one complete request with this head and at most `limit` bytes
        of body.

        The request still has to be authenticated, and its view looked up.
        """
        start, headers = self._head.body_start(data), self.headers
        if not start and self._name_pattern is not None:
            start_and_name = self._name_pattern.read(data, self._headers_by_name)
            if start_and_name is not None:
                start, headers = (
                    start_and_name[0],
                    self._headers_by_name.get(start_and_name[1]) or self._headers_with_name(start_and_name[1]),
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
        """Cache the head in `data`, the bytes of one request. Returns None if the head cannot be cached.

        Not cached are heads of clients that do not accept event streams, and heads of web pages, so that requests with
        a cached head need no look-up of `Origin`.
        """
        if exchange.page_lines is not None:
            return None
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
            # saves memory: an idle connection keeps its last exchange, which now shares the equal headers
            exchange.headers = cached_head.headers
        return cached_head
