"""A server behind Streamable HTTP, in either era.

Made by `upstream.registry`, called by `calls.dispatch`. It knows one endpoint and one credential; request heads are
prepared once. Modern servers are called without a handshake; with legacy ones a session is opened at the first call and
shared by all, so ids and progress tokens are ours and unique.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_gateway.upstream.base import Gauges, Order
from fairlead_gateway.upstream.inquiries import MAX_STREAMS, HttpInquiries
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, NotMcp, Timeout
from fairlead_mcp.http.dial import Address, Resolve, resolve_by_dns
from fairlead_mcp.http.exchange import Answer
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.reading import read_answer
from fairlead_mcp.http.target import Target, with_body

SESSION_SECONDS: Final = 10.0
"""Bound on opening a session."""
COURTESY_SECONDS: Final = 5.0
"""Bound on a message that nobody waits for: a cancellation, an answer to a server's request."""
MAX_COURTESIES: Final = 256
HANDSHAKE_BYTES: Final = 1 << 20

_CALL: Final = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}'


class HttpUpstream:
    """See the module. `resolve` gives the addresses of a host, one per pod."""

    def __init__(
        self,
        target: Target,
        *,
        modern: bool,
        client: eras.Client,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        limit: int = 64,
        resolve: Resolve = resolve_by_dns,
    ) -> None:
        self.modern = modern
        self._client = client
        self._head = target.head(headers=headers)
        self._modern_head = b"%b%b: %b\r\n%b: tools/call\r\n%b: " % (
            self._head, eras.H_VERSION, eras.MODERN_VERSION.encode(), eras.H_METHOD, eras.H_NAME,
        )  # fmt: skip
        self._count = itertools.count(1).__next__
        self._session: _Session | None = None
        self._opening: asyncio.Task[_Session] | None = None
        self._courtesies: set[asyncio.Task[None]] = set()

        async def spread(host: str, port: int) -> list[Address]:
            # a legacy session lives in one pod, so everybody goes to the first in order while it answers
            addresses = sorted(await resolve(host, port))
            first = dials() % len(addresses) if modern and addresses else 0
            return addresses[first:] + addresses[:first]

        dials = itertools.count().__next__

        self.pool = Pool(target.host, target.port, ssl=tls, limit=limit, resolve=spread)

        def pool_of(address: Address) -> Pool:
            async def only(host: str, port: int) -> list[Address]:
                return [address]

            return Pool(target.host, target.port, ssl=tls, limit=limit, resolve=only)

        self._inquiries = HttpInquiries(
            self._head, modern=modern, client=client, pool=self.pool, pinned=pool_of,
            streams=Pool(target.host, target.port, ssl=tls, limit=MAX_STREAMS, resolve=spread),
            addresses=lambda: resolve(target.host, target.port), next_id=self.next_id,
        )  # fmt: skip

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    async def call(self, order: Order) -> Raw:
        if self.modern:
            data = with_body(self._modern_head + order.name_header + b"\r\n", _CALL % (order.id, order.params))
            return self._read(await self._exchange(data, order, order.id, b""), order.id)
        return await self._call_legacy(order)

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        return await self._inquiries.era(client, deadline)

    async def ask(self, inquiry: Inquiry) -> Raw:
        return await self._inquiries.ask(inquiry)

    def gauges(self) -> Gauges:
        seen = self.pool.statistics()
        return Gauges(busy=seen.busy, idle=seen.idle, waiting=seen.waiting)

    async def aclose(self, grace: float) -> None:
        await self.pool.aclose(grace)
        await self._inquiries.aclose()
        tasks = [*self._courtesies, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Legacy

    async def _call_legacy(self, order: Order) -> Raw:
        session = await self._opened(order.deadline)
        answer, ident = await self._call_in(session, order, order.id)
        if session.lost(answer):
            # the server does not know the session, so it did not execute the call
            if self._session is session:
                self._session = None
            session = await self._opened(order.deadline)
            answer, ident = await self._call_in(session, order, self.next_id())
        return self._read(answer, ident)

    async def _call_in(self, session: _Session, order: Order, ident: bytes) -> tuple[Answer, bytes]:
        data = with_body(session.head, _CALL % (ident, order.params))
        try:
            return await self._exchange(data, order, ident, session.head), ident
        except (asyncio.CancelledError, Timeout):
            params = b'{"requestId":%b,"reason":"The caller does not wait any longer"}' % ident
            self._send(session.head, jsonrpc.notification("notifications/cancelled", params), "cancel")
            raise

    async def _opened(self, deadline: float) -> _Session:
        """The session, opened by whoever needs it first; one who gives up does not stop it for the others."""
        if self._session is not None:
            return self._session
        if self._opening is None:
            loop = asyncio.get_running_loop()
            self._opening = loop.create_task(self._open(), name=f"session {self.pool.host}:{self.pool.port}")
            self._opening.add_done_callback(self._session_opened)
        left = deadline - self.pool.clock()
        done, _ = await asyncio.wait([self._opening], timeout=max(left, 0))
        if not done:
            raise Timeout("the server's session was not opened in time", sent=False)
        return done.pop().result()

    def _session_opened(self, task: asyncio.Task[_Session]) -> None:
        self._opening = None
        if not task.cancelled() and task.exception() is None:
            self._session = task.result()

    async def _open(self) -> _Session:
        deadline = self.pool.clock() + SESSION_SECONDS
        ident = self.next_id()
        body = jsonrpc.request(ident, "initialize", eras.initialize_params(self._client))
        answer = await self.pool.exchange(with_body(self._head, body), deadline=deadline, max_bytes=HANDSHAKE_BYTES)
        negotiated = eras.read_initialize(self._read(answer, ident))
        session = _Session(self._head, negotiated.protocol_version, answer.headers.get(b"mcp-session-id"))
        note = with_body(session.head, jsonrpc.notification("notifications/initialized"))
        await self.pool.exchange(note, deadline=deadline, max_bytes=HANDSHAKE_BYTES)
        return session

    # Both

    async def _exchange(self, data: bytes, order: Order, ident: bytes, head: bytes) -> Answer:
        def on_event(event: bytes) -> bool:
            try:
                message = jsonrpc.decode_message(event)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return True
            if message.method is UNSET:
                return message.is_response
            if message.is_request and head:
                self._send(head, jsonrpc.reply_to_server(message), "reply")
            elif order.notify is not None:
                order.notify(message)
            return False

        return await self.pool.exchange(data, deadline=order.deadline, max_bytes=order.max_bytes, on_event=on_event)

    def _read(self, answer: Answer, ident: bytes) -> Raw:
        try:
            if not answer.body.isascii():
                answer.body.decode()
            return read_answer(answer, ident)
        except UnicodeDecodeError as error:
            raise NotMcp("the answer is not UTF-8", status=answer.status) from error
        except NotMcp as error:
            if error.reason == "WrongAnswerId":
                self.pool.discard(answer)
            raise

    def _send(self, head: bytes, body: bytes, what: str) -> None:
        if len(self._courtesies) < MAX_COURTESIES:
            task = asyncio.get_running_loop().create_task(self._post(head, body), name=f"{what} {self.pool.host}")
            self._courtesies.add(task)
            task.add_done_callback(self._courtesies.discard)

    async def _post(self, head: bytes, body: bytes) -> None:
        deadline = self.pool.clock() + COURTESY_SECONDS
        with contextlib.suppress(McpError):  # a courtesy: whom it is for has other trouble
            await self.pool.exchange(with_body(head, body), deadline=deadline, max_bytes=HANDSHAKE_BYTES)


class _Session:
    """A legacy session; servers without state give no id."""

    __slots__ = ("_named", "head")

    def __init__(self, head: bytes, version: str, ident: bytes | None) -> None:
        self._named = ident is not None
        named = b"%b: %b\r\n" % (eras.H_SESSION, ident) if ident is not None else b""
        self.head = b"%b%b: %b\r\n%b" % (head, eras.H_VERSION, version.encode(), named)

    def lost(self, answer: Answer) -> bool:
        """404 as MCP wants it, or 400 about the session as the TypeScript SDK does it."""
        if answer.status == 404:
            return self._named
        return answer.status == 400 and b"session" in answer.body.lower()
