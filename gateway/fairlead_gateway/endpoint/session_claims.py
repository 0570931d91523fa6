"""Checks that a message may use the session that it names.

Pure module: sessions are read from their signed ids.
"""

from __future__ import annotations

import msgspec

from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.core.client_message import (
    NOT_YOURS,
    SESSION_ENDED,
    SESSION_UNKNOWN,
    ClientResponse,
    Notification,
    Rejection,
)
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.session import LegacySession


def claim_session(sessions: SessionIds, owner: str, request: McpRequest, ident: bytes) -> McpRequest | Rejection:
    """The request, with its session where `owner` opened that. An id that our key did not sign, as that of an earlier
    run, is refused (MCP 2025-11-25, Transports, "Session Management"), so that the client opens another session. Where
    sessions say nothing, in `initialize` and for modern clients, it is removed.
    """
    session = sessions.read(ident)
    if session is None:
        return request.sessionless() if request.modern or request.method == "initialize" else SESSION_UNKNOWN
    refused = _not_claimed(sessions, owner, session, ident)
    if refused is not None:
        return refused
    request.opened = session
    return request


def claim_session_of_unanswered(
    sessions: SessionIds, owner: str, message: Notification | ClientResponse, ident: bytes
) -> Notification | ClientResponse | Rejection:
    """As `claim_session`, of a message that is not answered and has no use for its session."""
    session = sessions.read(ident)
    if session is None:
        modern = isinstance(message, Notification) and message.modern
        return msgspec.structs.replace(message, session=None) if modern else SESSION_UNKNOWN
    return _not_claimed(sessions, owner, session, ident) or message


def _not_claimed(sessions: SessionIds, owner: str, session: LegacySession, ident: bytes) -> Rejection | None:
    if session.owner != owner:
        return NOT_YOURS
    return SESSION_ENDED if sessions.has_ended(ident) else None
