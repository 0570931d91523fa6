"""Conversation with one MCP server, in either era and over any transport: listings with all their pages, single calls.

Everything that a server defines is returned raw, byte for byte.

    async with McpSession.over_http(Target.from_url("http://tools:8080/mcp")) as session:
        if session.offers("tools"):
            tools = await session.list_all("tools/list")

Timeouts are seconds for the whole operation. Every method raises McpError and nothing else of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import ssl as tls
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, Self

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.channel import LineChannel
from fairlead_mcp.child import Child
from fairlead_mcp.eras import LISTS, Era, Negotiated
from fairlead_mcp.errors import BadListing, NotMcp, RpcError
from fairlead_mcp.http.channel import HttpChannel
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.older import OlderChannel
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.target import Target
from fairlead_mcp.messages import Message
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.stream_client import StreamClient

CONNECTIONS: Final = 4
"""Connections of a session over Streamable HTTP, unless the caller asks for more: enough for listings."""
CONNECT_SECONDS: Final = 10.0
LIST_SECONDS: Final = 30.0
CALL_SECONDS: Final = 60.0


class ListingBounds(msgspec.Struct, frozen=True):
    """Limits of a listing. `size` is in bytes of all pages together."""

    pages: int = 1000
    items: int = 20_000
    size: int = 64 << 20


class Channel(Protocol):
    """Transport of a session. Deadlines are absolute, in the session's clock."""

    @property
    def negotiated(self) -> Negotiated | None: ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about what the transport does to reach the server."""
        ...

    async def connect(self, deadline: float) -> Negotiated: ...

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, declares: str = "") -> Raw: ...

    async def listen(self, deadline: float) -> None: ...

    async def aclose(self) -> None: ...


def http_pool(
    target: Target,
    *,
    ssl: tls.SSLContext | None = None,
    resolve: Resolve | None = None,
    connections: int = CONNECTIONS,
) -> Pool:
    """Pool of connections that are made as needed. `ssl` defaults to the system's trust for https URLs, `resolve` to
    DNS.
    """
    if target.tls and ssl is None:
        ssl = tls.create_default_context()
    return Pool(target.host, target.port, ssl=ssl if target.tls else None, limit=connections, resolve=resolve)


class McpSession:
    """Session with one MCP server, over HTTP, a link or a child process. `pool` is closed with the session.

    `ttl` has the shortest `ttlMs` (milliseconds) of each method's last listing, where the server gave one.
    """

    def __init__(
        self, channel: Channel, *, pool: Pool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.channel = channel
        self.ttl: dict[str, int] = {}
        self._listed: dict[str, tuple[str, ...]] = {}
        """Remarks on the last listing of each method."""
        self._pool = pool
        self._clock = clock

    @classmethod
    def over_http(
        cls,
        target: Target,
        *,
        headers: Mapping[str, str] | None = None,
        pool: Pool | None = None,
        on_notification: Callable[[Message], None] | None = None,
        offering: Offering | None = None,
        events: Callable[[], LineChannel] | None = None,
    ) -> McpSession:
        """A session with connections of its own, by default those of `http_pool`; without an `offering` no client
        capability is declared. `events` makes the channel for a server that turns out to speak HTTP+SSE.

        Raises InvalidTarget for headers that cannot be sent.
        """
        pool = pool or http_pool(target)
        channel = HttpChannel(target, pool, headers=headers, on_notification=on_notification, offering=offering)
        return cls(channel if events is None else OlderChannel(channel, events, pool.clock), pool=pool)

    @classmethod
    def over_child(cls, child: Child, capabilities: bytes = b"{}") -> McpSession:
        """A session with a running child process, which goes on when the session is closed. `capabilities` (raw JSON)
        are declared with each request where the process speaks the modern era.
        """
        return cls(LineChannel(child, capabilities=capabilities), clock=child.clock)

    @classmethod
    def over_link(cls, link: StreamClient) -> McpSession:
        """A session over a stream of messages (`tcp`, `http.events`), which is closed with the session."""
        return cls(line_channel(link), clock=link.clock)

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def connect(self, timeout: float = CONNECT_SECONDS) -> Negotiated:
        """Negotiate the era, once. All other methods do it when it has not been done."""
        return await self.channel.connect(self._clock() + timeout)

    async def aclose(self) -> None:
        """End a legacy session (DELETE) and the connections; bounded, raises nothing."""
        await self.channel.aclose()
        if self._pool is not None:
            await self._pool.aclose()

    @property
    def negotiated(self) -> Negotiated:
        """Raises RuntimeError before `connect`."""
        agreed = self.channel.negotiated
        if agreed is None:
            raise RuntimeError("the session is not connected")
        return agreed

    @property
    def era(self) -> Era:
        return self.negotiated.era

    @property
    def protocol_version(self) -> str:
        return self.negotiated.protocol_version

    @property
    def server_info(self) -> Raw:
        """`{}` where a server names itself nowhere."""
        return self.negotiated.server_info

    @property
    def capabilities(self) -> Raw:
        return self.negotiated.capabilities

    @property
    def instructions(self) -> str | None:
        return self.negotiated.instructions

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about what the server sent in another shape than MCP's, and what became of it."""
        return (*self.channel.remarks, *self.negotiated.remarks, *itertools.chain.from_iterable(self._listed.values()))

    def offers(self, feature: str) -> bool:
        """Whether the server declared a capability: "tools", "resources", "prompts", …"""
        return self.negotiated.offers(feature)

    async def request(
        self, method: str, params: bytes | Raw | None = None, *, timeout: float = CALL_SECONDS, declares: str = ""
    ) -> Raw:
        """The raw result of one request; `params` is raw JSON without the era's envelope, `declares` the extension that
        it declares to a modern server beside the client's capabilities.
        """
        return await self.channel.request(method, params, deadline=self._clock() + timeout, declares=declares)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | bytes | Raw | None = None,
        timeout: float = CALL_SECONDS,
        declares: str = "",
    ) -> Raw:
        """The raw result of `tools/call`, which may say `isError`. `arguments` may be raw JSON; `declares` as of
        `request`.
        """
        raw = arguments if isinstance(arguments, bytes | Raw) else jsonrpc.encode(arguments or {})
        params = b'{"name":%b,"arguments":%b}' % (jsonrpc.encode(name), raw)
        return await self.request("tools/call", params, timeout=timeout, declares=declares)

    async def listen(self, timeout: float = CONNECT_SECONDS) -> None:
        """Have changes of the lists announced to `on_notification`; `timeout` bounds the connecting alone.

        Ends by an McpError, always: TransportError when the stream ends, another one where the server has none.
        """
        await self.channel.listen(self._clock() + timeout)

    async def list_all(
        self,
        method: str,
        *,
        timeout: float = LIST_SECONDS,
        bounds: ListingBounds | None = None,
        page_read: Callable[[Raw], None] | None = None,
    ) -> list[Raw]:
        """The items of all pages of "tools/list", "prompts/list", "resources/list" or "resources/templates/list".

        Each item is a view of its page: copy what is kept for long. `page_read` is called with each page, for what a
        server says beside its items. Raises BadListing beyond the bounds.
        """
        deadline = self._clock() + timeout
        listing = Listing(method, bounds or ListingBounds())
        params: bytes | None = None
        cursor: str | None = None
        while True:
            try:
                page = await self.channel.request(method, params, deadline=deadline)
            except RpcError as error:
                if cursor is None or not listing.take_refusal(cursor, error):
                    raise
                break
            cursor = listing.add(page)
            if page_read is not None:
                page_read(page)
            if cursor is None:
                break
            params = b'{"cursor":%b}' % jsonrpc.encode(cursor)
        self._listed[method] = tuple(listing.remarks)
        self.ttl.pop(method, None)
        if listing.ttl is not None:
            self.ttl[method] = listing.ttl
        return listing.items


def line_channel(link: StreamClient) -> LineChannel:
    """The channel of a session over a stream of messages, which it closes."""
    capabilities = b"{}" if link.side.offering is None else link.side.offering.capabilities
    return LineChannel(link, link.aclose, capabilities)


class Listing:
    """Pages put together, within bounds. Pure: `add(page)` returns the cursor of the next page or None.

    A walk that a server leads astray (back to a page, on by a cursor that is not a text) ends with what was read.
    `remarks` are sentences about that, and about a list of another shape that is clear in meaning.
    """

    def __init__(self, method: str, bounds: ListingBounds) -> None:
        self.items: list[Raw] = []
        self.ttl: int | None = None
        self.remarks: list[str] = []
        self._method = method
        self._member = LISTS[method]
        self._bounds = bounds
        self._cursors: set[str] = set()
        self._digests: set[bytes] = set()
        self._pages = 0
        self._size = 0

    def add(self, page: Raw) -> str | None:
        """Raises NotMcp for a page of another shape, BadListing beyond the bounds."""
        bounds, method = self._bounds, self._method
        self._pages += 1
        self._size += memoryview(page).nbytes
        items, cursor = self._read(page)
        if (cursor is not None or self._digests) and self._repeats(items):
            self._end("comes back to a page that was read already")
            return None
        self.items += items
        if self._size > bounds.size:
            raise BadListing(f"{method} amounts to more than {bounds.size} bytes", reason="ListingTooLarge")
        if len(self.items) > bounds.items:
            raise BadListing(f"{method} has more than {bounds.items} items", reason="TooManyItems")
        if cursor is None:
            return None
        if cursor in self._cursors:
            self._end(f"names the cursor {jsonrpc.excerpt(cursor.encode())!r} again")
            return None
        if self._pages >= bounds.pages:
            raise BadListing(f"{method} has more than {bounds.pages} pages", reason="TooManyPages")
        self._cursors.add(cursor)
        return cursor

    def take_refusal(self, cursor: str, error: RpcError) -> bool:
        """Whether the walk ends with what was read as the server refuses `cursor`: an empty one, which stands for the
        end with many servers (and is a cursor by MCP 2026-07-28, Pagination).
        """
        if cursor:
            return False
        self._end(f"names an empty cursor and refuses it (error {error.code})")
        return True

    def _repeats(self, items: list[Raw]) -> bool:
        """Whether these items came as a page before; pages without items say nothing."""
        if not items:
            return False
        hashed = hashlib.sha256()
        for item in items:
            hashed.update(item)
            hashed.update(b"\n")
        digest = hashed.digest()
        if digest in self._digests:
            return True
        self._digests.add(digest)
        return False

    def _end(self, what: str) -> None:
        self._remark(f"{what}: the list ends with what was read")

    def _remark(self, what: str) -> None:
        remark = f"{self._method} {what}"
        if remark not in self.remarks:
            self.remarks.append(remark)

    def _read(self, page: Raw) -> tuple[list[Raw], str | None]:
        try:
            members = jsonrpc.decode_object(page)
            items = self._items(members)
            cursor = members.get("nextCursor", _NULL)
            self._note_ttl(members.get("ttlMs"))
            return items, self._cursor(cursor)
        except jsonrpc.UNREADABLE as error:
            raise NotMcp(f"the answer to {self._method} has an unexpected shape: {error}") from error

    def _items(self, members: jsonrpc.RawObject) -> list[Raw]:
        """Raises NotMcp where the list is missing beside another one, and jsonrpc.UNREADABLE."""
        raw = members.get(self._member)
        if raw is None and not members.keys().isdisjoint(LISTS.values()):
            raise NotMcp(f"the answer to {self._method} has no {self._member}")
        try:
            return _decode_items(_NULL if raw is None else raw)
        except msgspec.ValidationError:
            shown = "absent" if raw is None else bytes(raw).translate(None, b" \t\r\n").decode()
            if shown not in ("absent", "null", "{}"):
                raise
        self._remark(f"has {self._member} {shown}: it counts as an empty list")
        return []

    def _cursor(self, raw: Raw) -> str | None:
        try:
            cursor: str | None = _decode_cursor(raw)
        except jsonrpc.UNREADABLE:
            self._end(f"has {jsonrpc.excerpt(bytes(raw))} as nextCursor, which is not a text")
            cursor = None
        return cursor

    def _note_ttl(self, raw: Raw | None) -> None:
        """A hint, so that one of another shape is none."""
        if raw is None:
            return
        with contextlib.suppress(msgspec.DecodeError):
            ttl = _decode_ttl(raw)
            self.ttl = ttl if self.ttl is None else min(self.ttl, ttl)


_NULL: Final = Raw(b"null")
_decode_ttl = msgspec.json.Decoder(int).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_cursor = msgspec.json.Decoder(str | None).decode
