"""Session with one MCP server, in either era and over any transport: listings with all their pages, single requests.

Definitions and results are returned as raw JSON, byte for byte.

    async with McpSession.over_http(Target.from_url("http://tools:8080/mcp")) as session:
        if session.offers("tools"):
            tools = await session.list_all("tools/list")

Timeouts are seconds for the whole operation. All methods raise McpError only.
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
"""Default number of connections of a session over Streamable HTTP: enough for listings."""
CONNECT_SECONDS: Final = 10.0
LIST_SECONDS: Final = 30.0
CALL_SECONDS: Final = 60.0


class ListingBounds(msgspec.Struct, frozen=True):
    """Limits of a listing. `size` is the sum over all pages, in bytes."""

    pages: int = 1000
    items: int = 20_000
    size: int = 64 << 20


class Channel(Protocol):
    """Transport of a session. Deadlines are absolute, in the session's clock."""

    @property
    def negotiated(self) -> Negotiated | None: ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about workarounds that the transport applies to reach the server."""
        ...

    async def connect(self, deadline: float) -> Negotiated: ...

    async def request(
        self, method: str, params: bytes | Raw | None, *, deadline: float, extension: str = ""
    ) -> Raw: ...

    async def listen(self, deadline: float) -> None: ...

    async def aclose(self) -> None: ...


def http_pool(
    target: Target,
    *,
    ssl: tls.SSLContext | None = None,
    resolve: Resolve | None = None,
    connections: int = CONNECTIONS,
) -> Pool:
    """Make a pool of up to `connections` connections to the host of `target`.

    `ssl` defaults to the system's trust store for https URLs, `resolve` to DNS.
    """
    if target.tls and ssl is None:
        ssl = tls.create_default_context()
    return Pool(target.host, target.port, ssl=ssl if target.tls else None, limit=connections, resolve=resolve)


class McpSession:
    """Session with one MCP server, over HTTP, a link or a child process. Closing the session closes `pool`.

    `ttl` maps a list method to the shortest `ttlMs` (milliseconds) in its last listing, if the server sent any.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        pool: Pool | None = None,
        clock: Callable[[], float] = time.monotonic,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self.channel = channel
        self.connect_seconds = connect_seconds
        """Limit of the handshake with which the session's context begins."""
        self.ttl: dict[str, int] = {}
        self._listing_remarks: dict[str, tuple[str, ...]] = {}
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
        """Make a session over Streamable HTTP, by default with the connections of `http_pool`.

        Without an `offering` no client capability is declared. `events` makes the channel for a server that turns out
        to speak HTTP+SSE. Raises InvalidTarget for headers that cannot be sent.
        """
        pool = pool or http_pool(target)
        channel = HttpChannel(target, pool, headers=headers, on_notification=on_notification, offering=offering)
        return cls(channel if events is None else OlderChannel(channel, events, pool.clock), pool=pool)

    @classmethod
    def over_child(cls, child: StreamClient, capabilities: bytes = b"{}") -> McpSession:
        """Make a session with a process, such as a `child.Child`, that outlives the session.

        `capabilities` (raw JSON) are declared with each request where the process speaks the modern era.
        """
        return cls(LineChannel(child, capabilities=capabilities), clock=child.clock)

    @classmethod
    def over_link(cls, link: StreamClient, connect_seconds: float = CONNECT_SECONDS) -> McpSession:
        """Make a session over a link (`tcp`, `http.events`), which is closed with the session."""
        return cls(line_channel(link), clock=link.clock, connect_seconds=connect_seconds)

    async def __aenter__(self) -> Self:
        try:
            await self.connect(self.connect_seconds)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def connect(self, timeout: float = CONNECT_SECONDS) -> Negotiated:
        """Negotiate the era, once. Other methods negotiate on demand."""
        return await self.channel.connect(self._clock() + timeout)

    async def aclose(self) -> None:
        """End a legacy session (DELETE) and close the connections. Bounded in time; raises nothing."""
        await self.channel.aclose()
        if self._pool is not None:
            await self._pool.aclose()

    @property
    def negotiated(self) -> Negotiated:
        """Result of the handshake. Raises RuntimeError before `connect`."""
        negotiated = self.channel.negotiated
        if negotiated is None:
            raise RuntimeError("the session is not connected")
        return negotiated

    @property
    def era(self) -> Era:
        return self.negotiated.era

    @property
    def protocol_version(self) -> str:
        return self.negotiated.protocol_version

    @property
    def server_info(self) -> Raw:
        """`serverInfo` as raw JSON; `{}` if the server sent none."""
        return self.negotiated.server_info

    @property
    def capabilities(self) -> Raw:
        return self.negotiated.capabilities

    @property
    def instructions(self) -> str | None:
        return self.negotiated.instructions

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about messages of the server that violate MCP, and how each was treated."""
        return (
            *self.channel.remarks,
            *self.negotiated.remarks,
            *itertools.chain.from_iterable(self._listing_remarks.values()),
        )

    def offers(self, feature: str) -> bool:
        """Whether the server declared a capability: "tools", "resources", "prompts", …"""
        return self.negotiated.offers(feature)

    async def request(
        self, method: str, params: bytes | Raw | None = None, *, timeout: float = CALL_SECONDS, extension: str = ""
    ) -> Raw:
        """Send one request and return its raw result. `params` is raw JSON without the `_meta` of the modern era, which
        is added.

        `extension` is an extension to declare to a modern server in addition to the client's capabilities.
        """
        return await self.channel.request(method, params, deadline=self._clock() + timeout, extension=extension)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | bytes | Raw | None = None,
        timeout: float = CALL_SECONDS,
        extension: str = "",
    ) -> Raw:
        """Send `tools/call` and return its raw result, which may have `isError`; `request` documents `extension`."""
        raw = arguments if isinstance(arguments, bytes | Raw) else jsonrpc.encode(arguments or {})
        params = b'{"name":%b,"arguments":%b}' % (jsonrpc.encode(name), raw)
        return await self.request("tools/call", params, timeout=timeout, extension=extension)

    async def listen(self, timeout: float = CONNECT_SECONDS) -> None:
        """Subscribe `on_notification` to changes of the server's lists; `timeout` limits only the connecting.

        Always raises McpError: TransportError when the stream ends, another McpError if the server offers no stream.
        """
        await self.channel.listen(self._clock() + timeout)

    async def list_all(
        self,
        method: str,
        *,
        timeout: float = LIST_SECONDS,
        bounds: ListingBounds | None = None,
        on_page: Callable[[Raw], None] | None = None,
    ) -> list[Raw]:
        """Read all pages of "tools/list", "prompts/list", "resources/list" or "resources/templates/list".

        Each item is a view of its page: copy items that are kept for long. `on_page` is called with each whole page,
        for members other than the items. Raises BadListing beyond the bounds.
        """
        deadline = self._clock() + timeout
        listing = Listing(method, bounds or ListingBounds())
        params: bytes | None = None
        cursor: str | None = None
        while True:
            try:
                page = await self.channel.request(method, params, deadline=deadline)
            except RpcError as error:
                if cursor is None or not listing.ends_with_refusal(cursor, error):
                    raise
                break
            cursor = listing.add(page)
            if on_page is not None:
                on_page(page)
            if cursor is None:
                break
            params = b'{"cursor":%b}' % jsonrpc.encode(cursor)
        self._listing_remarks[method] = tuple(listing.remarks)
        self.ttl.pop(method, None)
        if listing.ttl is not None:
            self.ttl[method] = listing.ttl
        return listing.items


def line_channel(link: StreamClient) -> LineChannel:
    """Make the channel of a session over a link; closing the channel closes the link."""
    capabilities = b"{}" if link.side.offering is None else link.side.offering.capabilities
    return LineChannel(link, link.aclose, capabilities)


class Listing:
    """Joins the pages of one listing, within bounds. Does no I/O: `add(page)` returns the cursor of the next page or
    None.

    If a server repeats a page or sends a cursor that is not a string, the listing ends with the items read so far.
    `remarks` are sentences about such pages and cursors, and about malformed lists whose meaning is clear.
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
        """Add a page and return its cursor. Raises NotMcp for a malformed page, BadListing beyond the bounds."""
        bounds, method = self._bounds, self._method
        self._pages += 1
        self._size += memoryview(page).nbytes
        items, cursor = self._read(page)
        if (cursor is not None or self._digests) and self._repeats(items):
            self._end("repeats a page that was read already")
            return None
        self.items += items
        if self._size > bounds.size:
            raise BadListing(
                f"the answers to {method} have more than {bounds.size} bytes together", reason="ListingTooLarge"
            )
        if len(self.items) > bounds.items:
            raise BadListing(
                f"the answers to {method} have more than {bounds.items} items together", reason="TooManyItems"
            )
        if cursor is None:
            return None
        if cursor in self._cursors:
            self._end(f"names the cursor {jsonrpc.excerpt(cursor.encode())!r} again")
            return None
        if self._pages >= bounds.pages:
            raise BadListing(f"the list of {method} has more than {bounds.pages} pages", reason="TooManyPages")
        self._cursors.add(cursor)
        return cursor

    def ends_with_refusal(self, cursor: str, error: RpcError) -> bool:
        """Whether the listing is complete although the server refused `cursor`.

        A listing is complete after an empty cursor: many servers mean the end of the list by it, although by MCP
        2026-07-28 (Pagination) an empty cursor is a cursor like others.
        """
        if cursor:
            return False
        self._end(f"names an empty cursor and refuses it (error {error.code})")
        return True

    def _repeats(self, items: list[Raw]) -> bool:
        """Whether an earlier page had the same items; False for a page without items."""
        if not items:
            return False
        hasher = hashlib.sha256()
        for item in items:
            hasher.update(item)
            hasher.update(b"\n")
        digest = hasher.digest()
        if digest in self._digests:
            return True
        self._digests.add(digest)
        return False

    def _end(self, finding: str) -> None:
        self._remark(f"{finding}: the list ends with the items read so far")

    def _remark(self, finding: str) -> None:
        remark = f"{self._method} {finding}"
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
        """Return the items of a page. Raises NotMcp if the page has a list of another method instead, and
        jsonrpc.UNREADABLE.
        """
        raw = members.get(self._member)
        if raw is None and not members.keys().isdisjoint(LISTS.values()):
            raise NotMcp(f"the answer to {self._method} has no {self._member}")
        try:
            return _decode_items(_NULL if raw is None else raw)
        except msgspec.ValidationError:
            value = "absent" if raw is None else bytes(raw).translate(None, b" \t\r\n").decode()
            if value not in ("absent", "null", "{}"):
                raise
        self._remark(f"has {self._member} {value}: it counts as an empty list")
        return []

    def _cursor(self, raw: Raw) -> str | None:
        try:
            cursor: str | None = _decode_cursor(raw)
        except jsonrpc.UNREADABLE:
            self._end(f"has {jsonrpc.excerpt(bytes(raw))} as nextCursor, which is not a string")
            cursor = None
        return cursor

    def _note_ttl(self, raw: Raw | None) -> None:
        """Record the shortest `ttlMs`; being a hint, it is ignored if it is not an integer."""
        if raw is None:
            return
        with contextlib.suppress(msgspec.DecodeError):
            ttl = _decode_ttl(raw)
            self.ttl = ttl if self.ttl is None else min(self.ttl, ttl)


_NULL: Final = Raw(b"null")
_decode_ttl = msgspec.json.Decoder(int).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_cursor = msgspec.json.Decoder(str | None).decode
