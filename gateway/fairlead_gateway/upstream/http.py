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
from collections.abc import Coroutine, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Credential
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.base import Gauges, Pending
from fairlead_gateway.upstream.inquiries import IDLE_SECONDS, HttpInquiries
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_gateway.upstream.order import Order, Recipient
from fairlead_gateway.upstream.session import Opened, get_head
from fairlead_gateway.upstream.ways import Ways
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import ConnectionLost, McpError, NotMcp, Timeout
from fairlead_mcp.http import resuming
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_mcp.http.exchange import Call
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.reading import read_answer
from fairlead_mcp.http.target import Target, with_body
from fairlead_mcp.jsonrpc import UNSET
from fairlead_mcp.masking import Mask

SESSION_SECONDS: Final = 10.0
"""Bound on opening a session."""
COURTESY_SECONDS: Final = 5.0
"""Bound on a message that nobody waits for: a cancellation, an answer to a server's request."""
MAX_COURTESIES: Final = 256
HANDSHAKE_BYTES: Final = 1 << 20

_CALL: Final = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}'
_FRAME: Final = len(_CALL % (b"", b""))
_LEGACY: Final = b"%bContent-Length: %d\r\n\r\n" + _CALL
_MODERN: Final = b"%b%b\r\nContent-Length: %d\r\n\r\n" + _CALL
"""Whole requests, in one step: what is formatted twice is copied twice."""


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
        session_idle: float = IDLE_SECONDS,
    ) -> None:
        self.modern = modern
        self.mask = Mask(Credential(headers=dict(headers or {})))
        self._client = client
        self._head = target.head(headers=headers)
        self._modern_head = b"%b%b: %b\r\n%b: tools/call\r\n%b: " % (
            self._head, eras.H_VERSION, eras.MODERN_VERSION.encode(), eras.H_METHOD, eras.H_NAME,
        )  # fmt: skip
        self._count = itertools.count(1).__next__
        self._session: Opened | None = None
        self._opening: asyncio.Task[Opened] | None = None
        self._courtesies: set[asyncio.Task[None]] = set()

        def pool(addresses: Resolve, most: int) -> Pool:
            return Pool(target.host, target.port, ssl=tls, limit=most, resolve=addresses)

        self._ways = Ways(pool, resolve, target.host, target.port, limit=limit, balanced=modern)
        self.pool = self._ways.any.calls
        self._inquiries = HttpInquiries(
            self._head, modern=modern, client=client, ways=self._ways, next_id=self.next_id, idle=session_idle
        )

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    def submit(self, order: Order, outcome: Recipient) -> Pending | None:
        session = self._session
        if session is not None:
            return self._submit(order, session.head, session, outcome)
        return self._submit(order, None, None, outcome) if self.modern else None

    async def call(self, order: Order) -> Raw:
        """Opens the session first where there is none, and once more where the server has lost it."""
        if self.modern:
            return await self._awaited(order, None, None)
        session = await self._opened(order.deadline)
        try:
            return await self._awaited(order, session.head, session)
        except _SessionLost:
            session = await self._opened(order.deadline)
            return await self._awaited(order.again(self.next_id()), session.head, None)

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        return await self._inquiries.era(client, deadline)

    async def ask(self, inquiry: Inquiry) -> Raw:
        try:
            return await self._inquiries.ask(inquiry)
        except McpError as error:
            raise self.mask.error(error)  # noqa: B904 - it is the same one

    def gauges(self) -> Gauges:
        seen = self.pool.statistics()
        return Gauges(busy=seen.busy, idle=seen.idle, waiting=seen.waiting)

    async def aclose(self, grace: float) -> None:
        await self.pool.aclose(grace)
        if self._session is not None and self._session.named:
            await self._inquiries.farewell(self._session.head, self._ways.any)
        await self._inquiries.aclose()
        tasks = [*self._courtesies, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Legacy

    async def _opened(self, deadline: float) -> Opened:
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

    def _session_opened(self, task: asyncio.Task[Opened]) -> None:
        self._opening = None
        if not task.cancelled() and task.exception() is None:
            self._session = task.result()

    async def _open(self) -> Opened:
        deadline = self.pool.clock() + SESSION_SECONDS
        ident = self.next_id()
        body = jsonrpc.request(ident, "initialize", eras.initialize_params(self._client))
        answer = await self.pool.exchange(with_body(self._head, body), deadline=deadline, max_bytes=HANDSHAKE_BYTES)
        negotiated = eras.read_initialize(self.read(answer, ident))
        session = Opened(self._head, negotiated.protocol_version, answer.headers.get(b"mcp-session-id"))
        self._ways.settle(answer.connection.peer)
        note = with_body(session.head, jsonrpc.notification("notifications/initialized"))
        await self.pool.exchange(note, deadline=deadline, max_bytes=HANDSHAKE_BYTES)
        return session

    def lose(self, session: Opened) -> None:
        """The server does not know the session any more."""
        if self._session is session:
            self._session = None

    # Both

    def _submit(self, order: Order, head: bytes | None, session: Opened | None, outcome: Recipient) -> _HttpCall:
        """`head` is that of a legacy session; None for a modern server."""
        ident, params = order.id, order.params
        length = _FRAME + len(ident) + len(params)
        if head is None:
            name = order.name_header if not order.trace else b"%b\r\n%b" % (order.name_header, order.trace[:-2])
            data = _MODERN % (self._modern_head, name, length, ident, params)
        else:
            data = _LEGACY % (head + order.trace if order.trace else head, length, ident, params)
        call = _HttpCall(self, data, order, head or b"", session, outcome)
        self.pool.submit(call)
        return call

    async def _awaited(self, order: Order, head: bytes | None, session: Opened | None) -> Raw:
        outcome = _Awaited(asyncio.get_running_loop().create_future())
        call = self._submit(order, head, session, outcome)
        try:
            return await outcome.future
        except asyncio.CancelledError:
            call.cancel()
            raise

    def read(self, answer: Answer, ident: bytes) -> Raw:
        """The raw result in an answer. Raises McpError."""
        plain = plain_result(answer, ident)
        if plain is not None and not self.modern:
            return plain
        try:
            if plain is None:
                answer.body.decode()
            result = read_answer(answer, ident) if plain is None else plain
            if self.modern and b'"requestState"' in answer.body and answer.connection.peer is not None:
                result = affinity.tagged(result, answer.connection.peer)
            return result
        except UnicodeDecodeError as error:
            raise NotMcp("the answer is not UTF-8", status=answer.status) from error
        except RecursionError as error:
            raise NotMcp("the answer is nested too deeply", status=answer.status) from error
        except NotMcp as error:
            if error.reason == "WrongAnswerId":
                self.pool.discard(answer)
            raise

    def give_up(self, head: bytes, ident: bytes) -> None:
        """Tell a legacy server that nobody waits for its answer; a modern one sees its connection closed."""
        if not self.modern:
            params = b'{"requestId":%b,"reason":"The caller does not wait any longer"}' % ident
            self.send(head, jsonrpc.notification("notifications/cancelled", params), "cancel")

    def send(self, head: bytes, body: bytes, what: str) -> None:
        """Post a message that nobody waits for."""
        if len(self._courtesies) < MAX_COURTESIES:
            self.own(self._post(head, body), what)

    def own(self, work: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
        """Run something beside the calls, until the upstream is closed."""
        task = asyncio.get_running_loop().create_task(work, name=f"{what} {self.pool.host}")
        self._courtesies.add(task)
        task.add_done_callback(self._courtesies.discard)
        return task

    async def _post(self, head: bytes, body: bytes) -> None:
        deadline = self.pool.clock() + COURTESY_SECONDS
        with contextlib.suppress(McpError):  # a courtesy: whom it is for has other trouble
            way = self._ways.any.beside
            await way.exchange(with_body(head, body), deadline=deadline, max_bytes=HANDSHAKE_BYTES)


def plain_result(answer: Answer, ident: bytes) -> Raw | None:
    """The result where all is well; what else an answer can be is for `read_answer` to name."""
    return result_in(answer.body, ident) if answer.status == 200 else None


def result_in(body: bytes, ident: bytes) -> Raw | None:
    """The result in a response to the request `ident`; None where it is anything else."""
    try:
        if not body.isascii():
            body.decode()
        response = jsonrpc.decode_response(body)
    except jsonrpc.UNREADABLE:
        return None
    if response.error is not None or response.result is UNSET or response.id is UNSET:
        return None
    return response.result if bytes(response.id) == ident else None


class _HttpCall(Call):
    """A call on its way. `session` is that of a legacy server which may turn out to be lost; else None."""

    __slots__ = ("_head", "_order", "_outcome", "_rest", "_session", "_upstream")

    def __init__(
        self, upstream: HttpUpstream, data: bytes, order: Order, head: bytes, session: Opened | None, outcome: Recipient
    ) -> None:
        self.data = data  # not by super().__init__: it costs as much as all of these lines
        self.deadline = order.deadline
        self.max_bytes = order.max_bytes
        self.connection = None
        self.counter = order.counter
        self.cursor = None
        self._on_open = None
        self._upstream = upstream
        self._order = order
        self._head = head
        self._session = session
        self._outcome = outcome
        self._rest: asyncio.Task[None] | None = None

    def took(self, body: bytes) -> bool:
        result = result_in(body, self._order.id)
        if result is None or (self._upstream.modern and b'"requestState"' in body):
            return False
        self._outcome.answered(result)
        return True

    def answered(self, answer: Answer) -> None:
        if self.cursor is not None and not answer.body and not self._upstream.modern:
            self._resume(answer)
            return
        session = self._session
        if session is not None and answer.status >= 400 and session.lost(answer):
            # the server does not know the session, so it did not execute the call
            self._upstream.lose(session)
            self._outcome.again()
            return
        try:
            result = self._upstream.read(answer, self._order.id)
        except McpError as error:
            self._outcome.failed(self._upstream.mask.error(error))
        else:
            self._outcome.answered(result)

    def failed(self, error: Exception) -> None:
        if self.cursor is not None and isinstance(error, ConnectionLost) and not self._upstream.modern:
            self._resume(error)
            return
        if isinstance(error, Timeout):
            self._upstream.give_up(self._head, self._order.id)
        self._outcome.failed(error)

    def _resume(self, before: Answer | McpError) -> None:
        """The stream ended before its answer: ask for the rest."""
        self._rest = self._upstream.own(self._ask_for_rest(before), "resume")

    async def _ask_for_rest(self, before: Answer | McpError) -> None:
        cursor, self.cursor, order = self.cursor, None, self._order
        assert cursor is not None
        try:
            self.answered(
                await resuming.rest(
                    self._upstream.pool, get_head(self._head), cursor, before, order.deadline, order.max_bytes,
                    self.on_event, counter=order.counter,
                )
            )  # fmt: skip
        except McpError as error:
            self.failed(error)
        except asyncio.CancelledError:
            self._outcome.failed(ConnectionLost("the connections to the server were closed", sent=True, received=True))
            raise

    def cancel(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
        self._upstream.pool.cancel(self)
        self._upstream.give_up(self._head, self._order.id)

    def on_event(self, data: bytes) -> bool:
        try:
            message = jsonrpc.decode_message(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return True
        if message.method is UNSET:
            return message.is_response
        if message.is_request and not self._upstream.modern:
            self._upstream.send(self._head, jsonrpc.reply_to_server(message), "reply")
        elif self._order.notify is not None:
            self._order.notify(message)
        return False


class _SessionLost(Exception):
    """Never leaves this module."""


class _Awaited(Recipient):
    """An outcome that a task waits for."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Raw]) -> None:
        self.future = future

    def answered(self, result: Raw) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def failed(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def again(self) -> None:
        if not self.future.done():
            self.future.set_exception(_SessionLost())
