"""Unanswered requests of servers to clients, and the log levels of client sessions.

A server sends requests to a client while it executes a request of this client. Each is forwarded to the client under a
random id, which is valid until the client's own request has ended. Only the session that received the request may
answer it.
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
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.outbound import CallCredentials
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import oldest_of_largest
from fairlead_gateway.upstream.log_levels import LEVELS
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.messages import ErrorObject, Message

MAX_LEVELS: Final = 4096
"""Limit on the sessions with a log level; beyond it, the agents with the most sessions lose the oldest."""
MAX_SESSION: Final = 512
"""Limit on the bytes of a session id with a log level; ids signed by the gateway are shorter."""


class _OpenRequest(msgspec.Struct, frozen=True):
    session: bytes
    server_request_id: bytes
    answer: AnswerServer
    credentials: CallCredentials | None


class ServerRequests:
    """Unanswered requests of servers to the gateway's clients, and the log levels of recent client sessions."""

    def __init__(
        self,
        sessions: SessionIds,
        send_update: Callable[[bytes, Raw], bool],
        new_id: Callable[[], str] = lambda: secrets.token_urlsafe(18),
        counts: ShareCounts | None = None,
    ) -> None:
        """`send_update` sends `notifications/resources/updated` on a session's GET stream; False without a stream.

        `counts` counts evicted log levels.
        """
        self.sessions = sessions
        self.send_update = send_update
        self._new_id = new_id
        self._open_requests: dict[bytes, _OpenRequest] = {}
        """Unanswered requests, by the ids that clients got."""
        self._counts = counts or ShareCounts()
        self.levels: dict[bytes, str] = {}
        """Lowest severity of log messages by session."""
        self._agents: OrderedDict[bytes, str] = OrderedDict()
        """Agent of each session in `levels`, in the order in which the levels were set."""

    def set_level(self, session: bytes | None, level: str, agent: str) -> bool:
        """Store the level of a legacy client's `logging/setLevel`; False for an unknown level."""
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
        """Evict an eighth of the levels, from the agents with the most. A batch, because each call scans all levels."""
        evicted_sessions = oldest_of_largest(
            ((session, agent, 1) for session, agent in self._agents.items()), MAX_LEVELS // 8
        )
        for session in evicted_sessions:
            del self.levels[session]
            del self._agents[session]
        self._counts.count("log_levels", "gave_way", len(evicted_sessions))

    def take_answer(self, session: bytes | None, message: Message, identity: Identity = ANONYMOUS) -> bool:
        """Forward a client's response to the server; False if the session has no unanswered request with that id.

        The token of `identity` may be newer than the token of the request during which the server asked.
        """
        request = self._open_requests.get(bytes(message.id)) if message.id is not UNSET else None
        if request is None or request.session != session:
            return False
        del self._open_requests[bytes(message.id)]  # type: ignore[arg-type]  # not UNSET, as the request was found by it
        if request.credentials is not None:
            request.credentials.note(identity)
        if message.result is not UNSET:
            request.answer(jsonrpc.result(request.server_request_id, message.result))
        elif isinstance(message.error, ErrorObject):
            data = None if message.error.data is UNSET else message.error.data
            request.answer(jsonrpc.error(request.server_request_id, message.error.code, message.error.message, data))
        return True

    def ask(
        self, session: bytes, server_request_id: bytes, answer: AnswerServer, credentials: CallCredentials | None = None
    ) -> bytes:
        """Register a server's request. Returns its id for the client, as raw JSON; `answer` receives the client's
        response. `credentials` are the server's, if each call needs an access token.
        """
        ident = b'"%b"' % self._new_id().encode()
        self._open_requests[ident] = _OpenRequest(session, server_request_id, answer, credentials)
        return ident

    def forget(self, ident: bytes) -> None:
        self._open_requests.pop(ident, None)


class _LevelMeta(msgspec.Struct):
    level: str | None = msgspec.field(name=eras.META_LOG_LEVEL, default=None)


_decode_level_meta = msgspec.json.Decoder(_LevelMeta).decode


def requested_level(request: McpRequest) -> str | None:
    """Lowest severity of log messages that a modern request asks for; None for no log messages."""
    meta = request.params.get("_meta")
    if meta is None or not request.meta.has_log_level:
        return None
    try:
        level = _decode_level_meta(meta).level
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return level if level in LEVELS else None
