"""Checks that a message may use the session that it names.

Pure module: sessions are read from their signed ids.
"""

from __future__ import annotations

import msgspec

from fairlead_gateway.calls.sessions import SessionIds
from fairlead_gateway.core.client_message import (
    NOT_YOURS,
    SESSION_ENDED,
    ClientResponse,
    Notification,
    Rejection,
)
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.session import LegacySession


def claim_session(sessions: SessionIds, owner: str, request: McpRequest, ident: bytes) -> McpRequest | Rejection:
    """The request, with its session where `owner` opened that. An id that our key did not sign is removed: a client may
    have made it up, and the next one the same.
    """
    session = sessions.read(ident)
    if session is None:
        return request.sessionless()
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
        return msgspec.structs.replace(message, session=None)
    return _not_claimed(sessions, owner, session, ident) or message


def _not_claimed(sessions: SessionIds, owner: str, session: LegacySession, ident: bytes) -> Rejection | None:
    if session.owner != owner:
        return NOT_YOURS
    return SESSION_ENDED if sessions.ended(ident) else None
