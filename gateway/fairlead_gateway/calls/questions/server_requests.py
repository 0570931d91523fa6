"""Messages to a client between its request and the answer: progress, log messages, and requests of the server.

A server's request to a client is kept under a random id, while the stream that it went out on is open and no longer;
only the session that it went to may answer it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.core.client_peer import AnswerServer
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import oldest_of_largest
from fairlead_gateway.upstream.log_levels import LEVELS
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.messages import ErrorObject, Message

MAX_LEVELS: Final = 4096
MAX_SESSION: Final = 512
"""Bytes of the id of a session whose level is remembered: those that were signed here are shorter."""


class _OpenRequest(msgspec.Struct, frozen=True):
    session: bytes
    server_id: bytes
    answer: AnswerServer


class ServerRequests:
    """Open requests of servers to the clients of one gateway, and the log levels of the latest client sessions."""

    def __init__(
        self,
        sessions: SessionIds,
        outlet: Callable[[bytes, Raw], bool],
        new_id: Callable[[], str] = lambda: secrets.token_urlsafe(18),
        counts: ShareCounts | None = None,
    ) -> None:
        """`outlet` sends `notifications/resources/updated` on the stream that a session holds open; False without.
        `counts` has the levels that were forgotten.
        """
        self.sessions = sessions
        self.outlet = outlet
        self._new_id = new_id
        self._open: dict[bytes, _OpenRequest] = {}
        self._counts = counts or ShareCounts()
        self.levels: dict[bytes, str] = {}
        """Least severe log message that each of the latest sessions asked for."""
        self._agents: OrderedDict[bytes, str] = OrderedDict()
        """Agents of these sessions, the one that asked last at the end."""

    def set_level(self, session: bytes | None, level: str, agent: str) -> bool:
        """Take `logging/setLevel` of a legacy client of an agent; False for an unknown level."""
        if level not in LEVELS:
            return False
        if session is not None and len(session) <= MAX_SESSION:
            self.levels[session] = level
            self._agents[session] = agent
            self._agents.move_to_end(session)
            if len(self.levels) > MAX_LEVELS:
                self._forget_levels()
        return True

    def _forget_levels(self) -> None:
        """Make room for an eighth at once: looking who has most takes a while."""
        dropped = oldest_of_largest(((session, agent, 1) for session, agent in self._agents.items()), MAX_LEVELS // 8)
        for session in dropped:
            del self.levels[session]
            del self._agents[session]
        self._counts.count("log_levels", "gave_way", len(dropped))

    def take_answer(self, session: bytes | None, message: Message) -> bool:
        """Pass a client's response on to the server that asked; False where nothing was asked of that session."""
        request = self._open.get(bytes(message.id)) if message.id is not UNSET else None
        if request is None or request.session != session:
            return False
        del self._open[bytes(message.id)]  # type: ignore[arg-type]  # it has one: see above
        if message.result is not UNSET:
            request.answer(jsonrpc.result(request.server_id, message.result))
        elif isinstance(message.error, ErrorObject):
            data = None if message.error.data is UNSET else message.error.data
            request.answer(jsonrpc.error(request.server_id, message.error.code, message.error.message, data))
        return True

    def ask(self, session: bytes, server_id: bytes, answer: AnswerServer) -> bytes:
        """Open a request to a client; its id, raw JSON."""
        ident = b'"%b"' % self._new_id().encode()
        self._open[ident] = _OpenRequest(session, server_id, answer)
        return ident

    def forget(self, ident: bytes) -> None:
        self._open.pop(ident, None)


class _LevelMeta(msgspec.Struct):
    level: str | None = msgspec.field(name=eras.META_LOG_LEVEL, default=None)


_decode_level_meta = msgspec.json.Decoder(_LevelMeta).decode


def level_asked_for(request: McpRequest) -> str | None:
    """Least severe log message that a modern request asks for; None for none."""
    meta = request.params.get("_meta")
    if meta is None or not request.meta.log_level:
        return None
    try:
        level = _decode_level_meta(meta).level
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return level if level in LEVELS else None
