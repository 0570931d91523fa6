"""What happens between a request and its answer: progress, log messages, and what a server asks of the client.

Used by `calls.dispatch` and `calls.forward`, told of clients' answers by `endpoint.front`. A server's request to a
client is kept by an id that nobody can guess, while the stream that it went out on is open and no longer; only the
session that it went to may answer it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_gateway.calls import translate
from fairlead_gateway.calls.exchange import Exchange
from fairlead_gateway.endpoint.request import Request
from fairlead_gateway.endpoint.sessions import Sessions
from fairlead_gateway.upstream.inquiry import AnswerServer, Counterpart, Listener
from fairlead_gateway.upstream.levels import DEFAULT_LEVEL, LEVELS
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.escaping import escaped
from fairlead_mcp.messages import ErrorObject, Message

MAX_LEVELS: Final = 4096
MAX_SESSION: Final = 512
"""Bytes of the id of a session whose level is remembered: those that were signed here are shorter."""
MAX_ID: Final = 256
"""Bytes of the id of a server's request that is passed on to a client."""
MAX_ASKED: Final = 64
"""Requests of servers that one request of a client may leave open."""

CANCELLED: Final = "notifications/cancelled"
RESOURCE_UPDATED: Final = "notifications/resources/updated"

_PASSED_ON: Final = frozenset({"notifications/elicitation/complete"})


class _Level(msgspec.Struct):
    level: str


_decode_level = msgspec.json.Decoder(_Level).decode


class _Asked(msgspec.Struct, frozen=True):
    session: bytes
    server_id: bytes
    answer: AnswerServer


class Live:
    """The requests in progress of one gateway. Levels of log messages are remembered for the latest sessions."""

    def __init__(self, sessions: Sessions, new_id: Callable[[], str] = lambda: secrets.token_urlsafe(18)) -> None:
        self.sessions = sessions
        self._new_id = new_id
        self.outlet: Callable[[bytes, Raw], bool] = lambda session, params: False
        """Says on the stream that a session holds open which resource has changed; set by whoever owns the streams."""
        self._asked: dict[bytes, _Asked] = {}
        self._levels: OrderedDict[bytes, str] = OrderedDict()

    def of(self, exchange: Exchange, request: Request, *, escapes: bool = False) -> LiveRequest:
        """To be closed when the request is answered. `escapes`: control characters are made visible to the client."""
        return LiveRequest(self, exchange, request, escapes=escapes)

    def set_level(self, session: bytes | None, level: str) -> bool:
        """`logging/setLevel` of a legacy client; False for what is no level."""
        if level not in LEVELS:
            return False
        if session is not None and len(session) <= MAX_SESSION:
            self._levels[session] = level
            self._levels.move_to_end(session)
            if len(self._levels) > MAX_LEVELS:
                self._levels.popitem(last=False)
        return True

    def level(self, session: bytes | None) -> str | None:
        return self._levels.get(session) if session is not None else None

    def answered(self, session: bytes | None, message: Message) -> bool:
        """A client's answer to a server's request, passed on; False where nothing was asked of that session."""
        asked = self._asked.get(bytes(message.id)) if message.id is not UNSET else None
        if asked is None or asked.session != session:
            return False
        del self._asked[bytes(message.id)]  # type: ignore[arg-type]  # it has one: see above
        if message.result is not UNSET:
            asked.answer(jsonrpc.result(asked.server_id, message.result))
        elif isinstance(message.error, ErrorObject):
            data = None if message.error.data is UNSET else message.error.data
            asked.answer(jsonrpc.error(asked.server_id, message.error.code, message.error.message, data))
        return True

    def ask(self, session: bytes, server_id: bytes, answer: AnswerServer) -> bytes:
        """The id, raw JSON, under which a client is asked."""
        ident = b'"%b"' % self._new_id().encode()
        self._asked[ident] = _Asked(session, server_id, answer)
        return ident

    def forget(self, ident: bytes) -> None:
        self._asked.pop(ident, None)


class LiveRequest:
    """One request in progress. `notify` and `on_request` are for the upstream that works on it."""

    __slots__ = (
        "_asked",
        "_escapes",
        "_exchange",
        "_level",
        "_live",
        "_modern",
        "_ours",
        "_session",
        "_token",
        "client",
    )

    def __init__(self, live: Live, exchange: Exchange, request: Request, *, escapes: bool = False) -> None:
        self._escapes = escapes
        self._live = live
        self._exchange = exchange
        self._modern = request.modern
        self._session = request.session
        self._token = translate.progress_token(request.params)
        self._ours = b""
        self._asked: dict[bytes, bytes] = {}
        """Ids under which the client was asked, and those of the server."""
        self._level = _level_asked_for(request) if request.modern else live.level(request.session)
        self.client: Counterpart | None = None
        """The client where it offers something to servers; None for nothing, and for modern clients."""
        if request.session is not None:
            session = live.sessions.read(request.session)
            if session is not None and session.features is not None:
                self.client = Counterpart(request.session, session.features.encode())

    def token(self, ours: bytes) -> bytes | None:
        """Our progress token in place of the client's; None where it asks for no progress."""
        if self._token is None:
            return None
        self._ours = ours
        return ours

    def log_level(self, to_modern: bool) -> bytes | None:
        """The level to ask a modern server for on behalf of a legacy client, raw JSON."""
        if self._modern or not to_modern:
            return None
        return b'"%b"' % (self._level or DEFAULT_LEVEL).encode()

    @property
    def level(self) -> str | None:
        """Of the log messages that the client asked for, if it did."""
        return self._level

    @property
    def listener(self) -> Listener:
        return self._exchange

    def subscribe(self) -> None:
        """The request is about a subscription: its session at the server is the client's own, whatever it offers."""
        if self.client is None and self._session is not None and self._live.sessions.read(self._session) is not None:
            self.client = Counterpart(self._session, b"{}")

    def close(self) -> None:
        """The request is answered or given up: what was asked of the client is void."""
        for ident in self._asked:
            self._live.forget(ident)

    def notify(self, message: Message) -> None:
        params = message.params
        if message.method == "notifications/progress":
            if self._token is not None and isinstance(params, Raw):
                progress = translate.progress(params, ours=self._ours, clients=self._token)
                if progress is not None:
                    self._tell(progress)
        elif message.method == "notifications/message":
            if isinstance(params, Raw) and self._wanted(params):
                self._tell(jsonrpc.notification("notifications/message", params))
        elif message.method == RESOURCE_UPDATED:
            if isinstance(params, Raw) and self._session is not None:
                self._live.outlet(self._session, params)
        elif message.method == CANCELLED and isinstance(params, Raw):
            self._withdraw(params)
        elif message.method in _PASSED_ON and not self._modern and isinstance(params, Raw):
            self._tell(jsonrpc.notification(str(message.method), params))

    def on_request(self, message: Message, answer: AnswerServer) -> None:
        """A legacy server asks something of the client: pass it on where the client offers that."""
        assert message.id is not UNSET
        if not offers(self.client, message) or self._session is None or len(self._asked) >= MAX_ASKED:
            answer(jsonrpc.reply_to_server(message))
            return
        ident = self._live.ask(self._session, bytes(message.id), answer)
        params = None if message.params is UNSET else message.params
        if self._tell(jsonrpc.request(ident, str(message.method), params)):
            self._asked[ident] = bytes(message.id)
        else:
            self._live.forget(ident)
            answer(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, "The client cannot be asked now"))

    def _withdraw(self, params: Raw) -> None:
        """The server does not want to know any more: neither does the client have to answer."""
        given_up = cancelled_id(params)
        for ident, server_id in self._asked.items():
            if server_id == given_up:
                self._live.forget(ident)
                del self._asked[ident]
                self._tell(jsonrpc.notification(CANCELLED, jsonrpc.with_member(params, "requestId", ident)))
                return

    def _tell(self, message: bytes) -> bool:
        return self._exchange.notify(bytes(escaped(message)) if self._escapes else message)

    def _wanted(self, params: Raw) -> bool:
        if self._level is None:
            return not self._modern
        try:
            level = _decode_level(params).level
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return level in LEVELS and LEVELS.index(level) >= LEVELS.index(self._level)


def cancelled_id(params: Raw) -> bytes:
    """The id, raw JSON, in `notifications/cancelled`; empty where there is none."""
    try:
        return bytes(jsonrpc.decode_object(params)["requestId"])
    except (*jsonrpc.UNREADABLE, KeyError):
        return b""


def offers(client: Counterpart | None, message: Message) -> bool:
    """Whether a server's request is for something that the client offers, under an id that is worth keeping."""
    capability = jsonrpc.CAPABILITY_OF.get(str(message.method))
    if capability is None or client is None or not isinstance(message.id, Raw) or len(message.id) > MAX_ID:
        return False
    return b'"%b"' % capability.encode() in client.features


class _LevelMeta(msgspec.Struct):
    level: str | None = msgspec.field(name=eras.META_LOG_LEVEL, default=None)


_decode_level_meta = msgspec.json.Decoder(_LevelMeta).decode


def _level_asked_for(request: Request) -> str | None:
    meta = request.params.get("_meta")
    if meta is None or not request.meta.log_level:
        return None
    try:
        level = _decode_level_meta(meta).level
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return level if level in LEVELS else None
