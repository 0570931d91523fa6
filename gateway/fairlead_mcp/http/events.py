"""MCP over HTTP+SSE (2024-11-05): requests are posted to an address, and all answers arrive on one event stream.

The transport is deprecated since 2025-03-26, but many servers still speak it. The first event named `endpoint` has the
address to post to, which may be relative to the stream's URL. An address of another origin is refused, because each
request carries credentials. One redirect is followed if it only adds or removes a trailing slash. Requests are posted
to the pod that the stream comes from, as no other pod knows its session.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import UNSET

from fairlead_mcp import jsonrpc
from fairlead_mcp.addresses import service_namespace
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import ConnectionLost, HttpRefused, McpError, NotMcp, PoolFull, RpcError, Timeout
from fairlead_mcp.http.answer import Answer, Carrier
from fairlead_mcp.http.channel import ADDRESSES
from fairlead_mcp.http.dial import Address, Resolve, resolve_by_dns
from fairlead_mcp.http.peers import CHECK_SECONDS, PeerCheck
from fairlead_mcp.http.pool import NEVER, AwaitedCall, Pool
from fairlead_mcp.http.reading import read_answer, refusal
from fairlead_mcp.http.target import InvalidTarget, Target, with_body
from fairlead_mcp.stdio import MAX_LINE
from fairlead_mcp.streams import MessageStream, StreamConnection, StreamOpener

OPEN_SECONDS: Final = 10.0
POST_SECONDS: Final = 30.0
MAX_POSTS: Final = 1024
MAX_EVENTS_BEFORE: Final = 64
"""Most events that may precede the event `endpoint`."""
CONNECTIONS: Final = 16
"""Connections for posting, in addition to the stream's own."""


class EventsOpener(StreamOpener):
    """Opens an event stream at `url` by GET. `headers` are sent with every request.

    `resolve_recent` is for checks of open streams, whose answers may be shared. Raises InvalidTarget for an invalid URL
    or header.
    """

    def __init__(
        self,
        url: str,
        *,
        host_header: str | None = None,
        headers: Mapping[str, str] | None = None,
        ssl: tls.SSLContext | None = None,
        resolve: Resolve | None = None,
        resolve_recent: Resolve | None = None,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self.url = url
        self.host_header = host_header
        self.headers = dict(headers or {})
        self.target = Target.from_url(url, host_header)
        self.head = self.target.head(b"GET", self.headers) + b"Accept: text/event-stream\r\n\r\n"
        self._ssl = (ssl or tls.create_default_context()) if self.target.tls else None
        self._resolve = resolve or resolve_by_dns
        self._resolve_recent = resolve_recent or self._resolve
        # a host outside of the cluster may resolve to another address each time, although the first one still serves
        seconds = check_seconds if service_namespace(self.target.host.lower()) else NEVER
        self._peers = PeerCheck(self.target.host, self.target.port, self._resolve_recent, seconds)

    def stream_pool(self) -> Pool:
        """Make the connection pool of one stream."""
        return self._pool(1, self._resolve)

    def post_pool(self, peer: Callable[[], Address | None]) -> Pool:
        """Make the connection pool of one stream's posts. `peer` returns the address that the stream comes from."""

        async def resolve(host: str, port: int) -> list[Address]:
            address = peer()
            return await self._resolve(host, port) if address is None else [address]

        return self._pool(CONNECTIONS, resolve)

    def _pool(self, limit: int, resolve: Resolve) -> Pool:
        return Pool(self.target.host, self.target.port, ssl=self._ssl, limit=limit, resolve=resolve)

    def post_target(self, endpoint: str) -> Target:
        """Return the target for requests, from the address in the `endpoint` event. Raises NotMcp."""
        post_url = self.target.at_own_origin(endpoint)
        if post_url is None:
            excerpt = jsonrpc.excerpt(endpoint.encode())
            raise NotMcp(f"the server's endpoint event names an address of another origin ({excerpt})")
        stream_url = urlsplit(self.url)
        try:
            return Target.from_url(
                post_url._replace(scheme=stream_url.scheme, netloc=stream_url.netloc, fragment="").geturl(),
                self.host_header,
            )
        except InvalidTarget as error:
            raise NotMcp(f"the address in the server's endpoint event is invalid: {error}") from error

    def redirect(self, answer: Answer) -> EventsOpener | None:
        """Return an opener for a redirect that only adds or removes a trailing slash; None for other answers."""
        target = self.target.slash_redirect(answer.status, answer.headers.get(b"location", b""))
        if target is None:
            return None
        url = urlsplit(self.url)._replace(path=target.path.decode().partition("?")[0]).geturl()
        return EventsOpener(
            url, host_header=self.host_header, headers=self.headers, ssl=self._ssl, resolve=self._resolve
        )

    @property
    def check_seconds(self) -> float:
        """Implements StreamOpener."""
        return self._peers.seconds

    async def is_current(self, stream: MessageStream) -> bool:
        """Implements StreamOpener."""
        return not isinstance(stream, EventStream) or await self._peers.is_current(stream.peer)

    async def is_ending(self, stream: MessageStream) -> bool:
        """Implements StreamOpener."""
        return isinstance(stream, EventStream) and await self._peers.is_ending(stream.peer)

    async def open(self, connection: StreamConnection) -> EventStream:
        """Open a stream. Raises McpError, with the server's message if it refused."""
        stream = EventStream(self, connection)
        try:
            await stream.begin()
        except BaseException:
            await stream.aclose()
            raise
        return stream


class EventStream:
    """Event stream with its posts, as a `MessageStream`."""

    def __init__(self, opener: EventsOpener, connection: StreamConnection) -> None:
        self._opener = opener
        self._connection = connection
        self.peer: Address | None = None
        """Address that the stream comes from; None before its first bytes."""
        self._pool = opener.stream_pool()
        self._post_pool = opener.post_pool(self._get_peer)
        self._endpoint: asyncio.Future[Target] = asyncio.get_running_loop().create_future()
        self._post_head = b""
        self._has_redirected_posts = False
        self._early = 0
        """Number of events before the event `endpoint`."""
        self._stream: asyncio.Task[None] | None = None
        self._posts = TaskSet()
        self._last_notification: asyncio.Task[None] | None = None
        """Task that posts the last notification."""
        self._is_over = False

    async def begin(self) -> None:
        """Open the stream and wait for the address to post to. Raises McpError."""
        loop = asyncio.get_running_loop()
        self._stream = loop.create_task(self._listen(), name=f"events of {self._pool.host}")
        done, _ = await asyncio.wait([self._endpoint], timeout=OPEN_SECONDS)
        if not done:
            raise Timeout("the event stream did not name an address to post to in time", sent=True)
        self._endpoint.result()

    def write(self, line: bytes) -> None:
        """Post a message after the previous notification, as servers refuse requests before `initialized`.

        Raises PoolFull.
        """
        if self._is_over:
            return
        if len(self._posts) >= MAX_POSTS:
            raise PoolFull(f"{MAX_POSTS} messages to the server are being posted already")
        task = self._posts.start(self._post(line, self._last_notification), f"post {self._pool.host}")
        if jsonrpc.decode_message(line).id is UNSET:
            self._last_notification = task

    async def aclose(self) -> None:
        self._is_over = True
        tasks = [*self._posts, *([self._stream] if self._stream is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._endpoint.done() and not self._endpoint.cancelled():
            self._endpoint.exception()
        await self._post_pool.aclose()
        await self._pool.aclose()

    # The stream

    def _get_peer(self) -> Address | None:
        return self.peer

    def _on_open(self, connection: Carrier) -> None:
        self.peer = connection.peer

    async def _listen(self) -> None:
        try:
            answer = await self._pool.run(_EventCall(self._opener.head, self._on_event, self._on_open))
            new_opener = self._opener.redirect(answer)
            if new_opener is not None:
                self._opener = new_opener
                answer = await self._pool.run(_EventCall(new_opener.head, self._on_event, self._on_open))
            error = self._end_error(answer)
        except McpError as caught:
            error = caught
        self._end(error)

    def _on_event(self, name: bytes, data: bytes) -> bool:
        if self._endpoint.done():
            if name == b"message" or (name != b"endpoint" and data.startswith(b"{")):
                self._connection.on_line(data)
            return False
        # some servers omit the event's name, so that it counts as `message`
        if name == b"endpoint" or (name == b"message" and data.startswith(ADDRESSES)):
            self._set_endpoint(data)
            return False
        self._early += 1
        if self._early >= MAX_EVENTS_BEFORE:
            self._endpoint.set_exception(
                NotMcp(
                    f"none of the server's first {self._early} events is an endpoint event with the address to post to"
                )
            )
            return True
        return False

    def _set_endpoint(self, data: bytes) -> None:
        try:
            target = self._opener.post_target(data.decode("utf-8", "replace").strip())
            self._post_head = target.head(headers=self._opener.headers)
            self._endpoint.set_result(target)
        except NotMcp as error:
            self._endpoint.set_exception(error)

    def _end_error(self, answer: Answer) -> McpError:
        if answer.streamed:
            return ConnectionLost("the server ended its event stream", sent=True, received=True)
        try:
            read_answer(answer, b"null")
        except (RpcError, HttpRefused, NotMcp) as error:
            return error
        except McpError:
            pass
        content_type = answer.content_type.decode("latin-1") or "nothing"
        return NotMcp(f"the server answered with {content_type} instead of an event stream", status=answer.status)

    def _end(self, error: McpError) -> None:
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
        elif not self._is_over:
            self._is_over = True
            self._connection.on_end(error)

    # Posts

    async def _post(self, line: bytes, previous_notification: asyncio.Task[None] | None) -> None:
        if previous_notification is not None and not previous_notification.done():
            await asyncio.wait([previous_notification])
        deadline = self._post_pool.clock() + POST_SECONDS
        try:
            head = self._post_head
            answer = await self._post_pool.exchange(with_body(head, line), deadline=deadline, max_bytes=MAX_LINE)
            if self._post_redirected(answer) and head != self._post_head:
                answer = await self._post_pool.exchange(
                    with_body(self._post_head, line), deadline=deadline, max_bytes=MAX_LINE
                )
        except McpError as error:
            self._refuse(line, error)
            return
        if answer.status == 404 or (answer.status == 400 and b"session" in answer.body.lower()):
            self._end(ConnectionLost("the server has lost the session of its event stream", sent=False))
        elif answer.status >= 300:
            self._refuse(line, refusal(answer))

    def _post_redirected(self, answer: Answer) -> bool:
        """Whether an answer redirects by a trailing slash only. Later messages are posted to the new address."""
        target = self._endpoint.result().slash_redirect(answer.status, answer.headers.get(b"location", b""))
        if target is not None and not self._has_redirected_posts:
            self._has_redirected_posts = True
            self._post_head = target.head(headers=self._opener.headers)
        return target is not None

    def _refuse(self, line: bytes, error: McpError) -> None:
        if not self._is_over:
            try:
                self._connection.on_refused(line, error)
            except jsonrpc.UNREADABLE:
                return


class _EventCall(AwaitedCall):
    """Request for an endless event stream, whose callback also gets the names of events."""

    __slots__ = ("_on_named_event",)

    def __init__(
        self, data: bytes, on_named_event: Callable[[bytes, bytes], bool], on_open: Callable[[Carrier], None]
    ) -> None:
        super().__init__(data, NEVER, MAX_LINE, on_open=on_open)
        self._on_named_event = on_named_event

    def on_named_event(self, name: bytes, data: bytes) -> bool:
        return self._on_named_event(name, data)
