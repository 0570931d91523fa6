"""Inquiries to a server behind Streamable HTTP. Part of `upstream.http`, which keeps the path of plain calls.

A legacy client that offers something to servers (sampling, elicitation, roots) is served in a legacy session that
declares just that, where the server has such sessions, for only there can a server ask in mid-call. Such a session is
the client's own while requests of it are in progress and a while longer: many servers ask on a stream apart from that
of the request, where nothing but the session says whom they mean.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_gateway.upstream.levels import Levels
from fairlead_gateway.upstream.pacing import Pace
from fairlead_gateway.upstream.session import Session, get_head, header
from fairlead_gateway.upstream.ways import Way, Ways
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import ConnectFailed, HttpRefused, McpError, NotMcp, RpcError, Timeout, UnsupportedVersion
from fairlead_mcp.http import resuming
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.pool import NEVER, Pool
from fairlead_mcp.http.reading import read_answer
from fairlead_mcp.http.target import with_body
from fairlead_mcp.messages import Message

SESSION_SECONDS: Final = 10.0
COURTESY_SECONDS: Final = 5.0
FAREWELL_SECONDS: Final = 1.0
MAX_COURTESIES: Final = 256
HANDSHAKE_BYTES: Final = 1 << 20
MAX_STREAMS: Final = 256
"""Clients that may be asked at once."""
IDLE_SECONDS: Final = 60.0
"""How long the session of one client is kept without a request."""
STREAM_SECONDS: Final = 2.0
"""How long a request waits for the stream that questions may come on."""
RESOURCE_UPDATED: Final = "notifications/resources/updated"


class HttpInquiries:
    """See the module. `head` is the prepared head of requests."""

    def __init__(
        self,
        head: bytes,
        *,
        modern: bool,
        client: eras.Client,
        ways: Ways,
        next_id: Callable[[], bytes],
        idle: float = IDLE_SECONDS,
    ) -> None:
        self._head = head
        self._idle = idle
        self._modern = modern
        self._client = client
        self._ways = ways
        self._clock = ways.any.calls.clock
        self._next_id = next_id
        self._sessions: dict[Counterpart | None, Session] = {}
        self._opening: dict[Counterpart | None, asyncio.Task[Session]] = {}
        self._no_legacy = False
        self._courtesies: set[asyncio.Task[None]] = set()

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        """See `Inquirable.era`."""
        if not self._modern or client is None or self._no_legacy:
            return self._modern
        try:
            await self._opened(client, deadline)
        except (RpcError, HttpRefused, NotMcp, UnsupportedVersion):
            self._no_legacy = True  # it speaks the modern era alone
            return True
        return False

    async def ask(self, inquiry: Inquiry) -> Raw:
        """See `Inquirable.ask`."""
        if await self.era(inquiry.client, inquiry.deadline):
            return await self._ask_modern(inquiry)
        session = await self._opened(inquiry.client, inquiry.deadline)
        ident, answer = inquiry.id, await self._asked_in(session, inquiry)
        if answer is None:
            if self._sessions.get(inquiry.client) is session:
                del self._sessions[inquiry.client]
                session.close()
            session, ident = await self._opened(inquiry.client, inquiry.deadline), self._next_id()
            answer = await self._ask_in(session, inquiry, ident)
        return self._read(self._way(session).calls, answer, ident)

    async def aclose(self) -> None:
        """Cancel what nobody waits for, close all ways but those of calls to any pod. Bounded."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()
        await asyncio.gather(*(self._farewell(session) for session in sessions))
        tasks = [*self._courtesies, *self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._ways.aclose()

    async def farewell(self, head: bytes, way: Way) -> None:
        """Tell the server that a session has ended, so that it need not keep it (MCP 2025-11-25, Transports, "Session
        Management"). `head` is that of the session's requests.
        """
        request = with_body(head.replace(b"POST ", b"DELETE ", 1), b"")
        deadline = self._clock() + FAREWELL_SECONDS
        with contextlib.suppress(McpError):  # it may be gone, or have nothing against sessions that stay
            await way.beside.exchange(request, deadline=deadline, max_bytes=HANDSHAKE_BYTES)

    async def _farewell(self, session: Session) -> None:
        if session.named:
            await self.farewell(session.head, self._way(session))

    # Modern

    async def _ask_modern(self, inquiry: Inquiry) -> Raw:
        lines = [self._head, header(eras.H_VERSION, eras.MODERN_VERSION.encode())]
        lines.append(header(eras.H_METHOD, inquiry.method.encode()))
        if inquiry.named is not None:
            lines.append(header(eras.H_NAME, eras.header_value(inquiry.named)))
        head = b"".join([*lines, inquiry.headers])
        way = self._ways.any if inquiry.pin is None else await self._ways.to(inquiry.pin)
        pool = way.beside if inquiry.method == "subscriptions/listen" else way.calls
        answer = await self._exchange(pool, inquiry, inquiry.id, head, None)
        result = self._read(pool, answer, inquiry.id)
        address = answer.connection.peer
        return result if address is None else affinity.tagged(result, address)

    # Legacy

    def _way(self, session: Session) -> Way:
        return self._ways.at(session.pod)

    async def _asked_in(self, session: Session, inquiry: Inquiry) -> Answer | None:
        """None where the session is no more, so that nothing was done: its server forgot it, or its pod is gone."""
        try:
            answer = await self._ask_in(session, inquiry, inquiry.id)
        except ConnectFailed:
            if session.pod is None:
                raise
            return None
        return None if session.lost(answer) else answer

    async def _ask_in(self, session: Session, inquiry: Inquiry, ident: bytes) -> Answer:
        session.enter(inquiry)
        if inquiry.method == "resources/subscribe":
            session.subscriber = inquiry.notify
            session.subscriptions += 1
        elif inquiry.method == "resources/unsubscribe":
            session.subscriptions = max(session.subscriptions - 1, 0)
            if session.subscriptions == 0:
                session.subscriber = None
        try:
            if inquiry.level is not None and session.levels is not None:
                await self._set_level(session, session.levels, inquiry.session, inquiry.level)
            return await self._exchange(self._way(session).calls, inquiry, ident, session.head, session)
        except (asyncio.CancelledError, Timeout):
            params = b'{"requestId":%b,"reason":"The caller does not wait any longer"}' % ident
            self._send(session, jsonrpc.notification("notifications/cancelled", params))
            raise
        finally:
            session.leave(inquiry)
            if inquiry.client is not None and not session.working and session.subscriber is None:
                session.expiry = asyncio.get_running_loop().call_later(self._idle, self._drop, inquiry.client)

    async def _set_level(self, session: Session, levels: Levels, client: bytes | None, level: str) -> None:
        """Have the server send the log messages that a client waits for. What the server says to it is no matter."""
        async with session.setting_level:
            due = levels.due(client, level, self._clock())
            if due is not None:
                body = jsonrpc.request(self._next_id(), "logging/setLevel", jsonrpc.encode({"level": due}))
                await self._post(session, body)

    def _drop(self, client: Counterpart | None) -> None:
        """Forget a session; its stream ends."""
        session = self._sessions.pop(client, None)
        if session is not None:
            session.close()
            self._own(self._farewell(session), "end session")

    async def _opened(self, client: Counterpart | None, deadline: float) -> Session:
        """The session, opened by whoever needs it first; one who gives up does not stop it for the others."""
        session = self._sessions.get(client)
        if session is not None:
            return session
        opening = self._opening.get(client)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(client), name=f"session {self._ways.host}")
            self._opening[client] = opening
            opening.add_done_callback(lambda task: self._session_opened(client, task))
        done, _ = await asyncio.wait([opening], timeout=max(deadline - self._clock(), 0))
        if not done:
            raise Timeout("the server's session was not opened in time", sent=False)
        return done.pop().result()

    def _session_opened(self, client: Counterpart | None, task: asyncio.Task[Session]) -> None:
        self._opening.pop(client, None)
        if not task.cancelled() and task.exception() is None:
            self._sessions[client] = task.result()
            if len(self._sessions) > MAX_STREAMS:
                self._make_room(client)

    def _make_room(self, newest: Counterpart | None) -> None:
        """Drop the oldest session of a client that has no request in progress; none where all have."""
        for client, session in self._sessions.items():
            if client not in (None, newest) and not session.working:
                self._drop(client)
                return

    async def _open(self, client: Counterpart | None) -> Session:
        deadline, way = self._clock() + SESSION_SECONDS, self._ways.any
        ident = self._next_id()
        offered = b"{}" if client is None else client.features
        body = jsonrpc.request(ident, "initialize", eras.initialize_params(self._client, offered))
        answer = await way.calls.exchange(with_body(self._head, body), deadline=deadline, max_bytes=HANDSHAKE_BYTES)
        negotiated = eras.read_initialize(self._read(way.calls, answer, ident))
        session = Session(self._head, negotiated.protocol_version, answer.headers.get(b"mcp-session-id"))
        session.pod = self._ways.pod(answer.connection.peer)
        if negotiated.offers("logging"):
            session.levels = Levels(shared=client is None)
        note = with_body(session.head, jsonrpc.notification("notifications/initialized"))
        await self._way(session).calls.exchange(note, deadline=deadline, max_bytes=HANDSHAKE_BYTES)
        if client is not None:
            opened = asyncio.Event()
            listening = self._listen(session, opened)
            session.stream = asyncio.get_running_loop().create_task(listening, name=f"listen {self._ways.host}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(opened.wait(), STREAM_SECONDS)
        return session

    async def _listen(self, session: Session, opened: asyncio.Event) -> None:
        """Hold the stream on which a server asks apart from its answers, as far as it has one."""

        def on_event(event: bytes) -> bool:
            try:
                message = jsonrpc.decode_message(event)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return False
            if message.method == RESOURCE_UPDATED and session.subscriber is not None:
                session.subscriber(message)
            elif session.working:
                self._take(session.working[-1], session, message)
            elif message.is_request:
                self._send(session, jsonrpc.reply_to_server(message))
            return False

        head = get_head(session.head)
        try:
            await self._way(session).beside.exchange(
                with_body(head, b""), deadline=NEVER, max_bytes=HANDSHAKE_BYTES, on_event=on_event,
                on_open=lambda _: opened.set(),
            )  # fmt: skip
        except McpError:
            pass  # a server without such a stream asks on that of the request
        finally:
            opened.set()

    # Both

    async def _exchange(
        self, pool: Pool, inquiry: Inquiry, ident: bytes, head: bytes, session: Session | None
    ) -> Answer:
        def on_event(event: bytes) -> bool:
            try:
                message = jsonrpc.decode_message(event)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return True
            if message.method is UNSET:
                if pace is not None:
                    pace.go_on()
                return message.is_response
            self._take(inquiry, session, message)
            if pace is not None:
                pace.told()
            return False

        pace = None if inquiry.listener is None else Pace(inquiry.listener)
        on_open = None if pace is None else pace.opened
        data = with_body(head, jsonrpc.request(ident, inquiry.method, inquiry.params))
        if session is not None:
            return await resuming.ask(
                pool, data, get_head(head), deadline=inquiry.deadline, max_bytes=inquiry.max_bytes,
                on_event=on_event, on_pause=inquiry.on_pause, on_open=on_open, counter=inquiry.counter,
            )  # fmt: skip
        return await pool.exchange(
            data, deadline=inquiry.deadline, max_bytes=inquiry.max_bytes, on_event=on_event, on_open=on_open,
            counter=inquiry.counter,
        )  # fmt: skip

    def _take(self, inquiry: Inquiry, session: Session | None, message: Message) -> None:
        """What a server says on the way. `session` is its legacy session, where there is one."""
        if message.method is not UNSET and not message.is_request:
            if inquiry.notify is not None:
                inquiry.notify(message)
        elif message.is_request and session is not None:
            if inquiry.on_request is not None:
                inquiry.on_request(message, lambda body: self._send(session, body))
            else:
                self._send(session, jsonrpc.reply_to_server(message))

    def _read(self, pool: Pool, answer: Answer, ident: bytes) -> Raw:
        try:
            if not answer.body.isascii():
                answer.body.decode()
            return read_answer(answer, ident)
        except UnicodeDecodeError as error:
            raise NotMcp("the answer is not UTF-8", status=answer.status) from error
        except NotMcp as error:
            if error.reason == "WrongAnswerId":
                pool.discard(answer)
            raise

    def _send(self, session: Session, body: bytes) -> None:
        if len(self._courtesies) < MAX_COURTESIES:
            self._own(self._post(session, body), "tell")

    def _own(self, work: Coroutine[object, object, None], what: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"{what} {self._ways.host}")
        self._courtesies.add(task)
        task.add_done_callback(self._courtesies.discard)

    async def _post(self, session: Session, body: bytes) -> None:
        """Beside the calls: the one that waits for it may have the last place among them."""
        deadline, way = self._clock() + COURTESY_SECONDS, self._way(session)
        with contextlib.suppress(McpError):  # whom it is for has other trouble
            await way.beside.exchange(with_body(session.head, body), deadline=deadline, max_bytes=HANDSHAKE_BYTES)
