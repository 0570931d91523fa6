"""Checks that the principal of a message owns the session in its `Mcp-Session-Id`.

Pure module, without a table of sessions: a session's data are in its signed id.
"""

from __future__ import annotations

import msgspec

from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.core.client_message import (
    SESSION_ENDED,
    SESSION_OF_ANOTHER,
    SESSION_UNKNOWN,
    ClientResponse,
    Notification,
    Rejection,
)
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.session import LegacySession


def claim_session(sessions: SessionIds, owner: str, request: McpRequest, ident: bytes) -> McpRequest | Rejection:
    """Set the session of a request, or reject the request. `owner` stands for the client's principal in session ids.

    A session that `owner` did not open is rejected. An id with an invalid signature, for example from before a restart,
    is rejected too, so that the client opens a new session (MCP 2025-11-25, Transports, "Session Management"). Modern
    requests and `initialize` need no session, so an invalid id is ignored.
    """
    session = sessions.read(ident)
    if session is None:
        return request.without_session() if request.modern or request.method == "initialize" else SESSION_UNKNOWN
    rejection = _check_owner(sessions, owner, session, ident)
    if rejection is not None:
        return rejection
    request.legacy_session = session
    return request


def claim_session_of_message(
    sessions: SessionIds, owner: str, message: Notification | ClientResponse, ident: bytes
) -> Notification | ClientResponse | Rejection:
    """Check the session of a notification or response, by the rules of `claim_session`."""
    session = sessions.read(ident)
    if session is None:
        modern = isinstance(message, Notification) and message.modern
        return msgspec.structs.replace(message, session=None) if modern else SESSION_UNKNOWN
    return _check_owner(sessions, owner, session, ident) or message


def _check_owner(sessions: SessionIds, owner: str, session: LegacySession, ident: bytes) -> Rejection | None:
    if session.owner != owner:
        return SESSION_OF_ANOTHER
    return SESSION_ENDED if sessions.has_ended(ident) else None
