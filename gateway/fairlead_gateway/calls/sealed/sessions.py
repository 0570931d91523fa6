"""Session ids of legacy clients: signed tokens that contain the session's data.

The data are the protocol revision and the capabilities that the client sent in `initialize`, and its principal. With
the data in the id the gateway stores nothing for idle clients (MCP 2025-11-25, Transports, "Session Management";
Lifecycle, "Initialization"). Pure module, except for the injected nonce.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.sealed.client_capabilities import normalize
from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.calls.sealed.signed_session import SignedSession
from fairlead_gateway.core.session import LegacySession

_MAX_CACHED: Final = 4096
"""Limit on the ids whose verification is cached, and on the ended sessions that are remembered."""
_MAX_ID: Final = 1024
"""Bytes of the longest id that is verified."""
MAX_FOREIGN_ID: Final = 256
"""Bytes of the longest invalid id that is cached."""
_decode_signed: Final = msgspec.json.Decoder(SignedSession).decode


class SessionIds:
    """Signs and verifies session ids with one key. Replicas that share the key accept each other's ids."""

    def __init__(self, key: bytes = b"", nonce: Callable[[], str] = lambda: secrets.token_urlsafe(18)) -> None:
        self._seal = Seal(key, "sessions")
        self._nonce = nonce
        self._verified_sessions: dict[bytes, LegacySession | None] = {}
        """Sessions by id; None for an id with an invalid signature."""
        self._ended_ids: OrderedDict[bytes, None] = OrderedDict()
        """Ids of ended sessions, oldest first."""

    def issue(self, version: str, capabilities: bytes | Raw, owner: str = "") -> bytes:
        """A new session id of visible ASCII characters."""
        session = SignedSession(version, self._nonce(), normalize(capabilities, version), owner)
        return self._seal.token("", msgspec.json.encode(session)).encode()

    def read(self, ident: bytes) -> LegacySession | None:
        """The session of an id; None if the signature is invalid."""
        try:
            return self._verified_sessions[ident]
        except KeyError:
            pass
        session = self._verify(ident) if len(ident) <= _MAX_ID else None
        if session is not None or len(ident) <= MAX_FOREIGN_ID:
            if len(self._verified_sessions) >= _MAX_CACHED:
                self._verified_sessions.clear()
            self._verified_sessions[ident] = session
        return session

    def belongs_to(self, owner: str, ident: bytes | None) -> bool:
        """Whether the id is a valid session of `owner`, ended or not."""
        session = None if ident is None else self.read(ident)
        return session is not None and session.owner == owner

    def end(self, ident: bytes) -> bool:
        """End a session; False if the id is invalid or the session has ended already.

        The latest 4,096 ended sessions are remembered; older ids become valid again.
        """
        if self.read(ident) is None or ident in self._ended_ids:
            return False
        self._ended_ids[ident] = None
        if len(self._ended_ids) > _MAX_CACHED:
            self._ended_ids.popitem(last=False)
        return True

    def has_ended(self, ident: bytes | None) -> bool:
        return bool(self._ended_ids) and ident in self._ended_ids

    def _verify(self, ident: bytes) -> LegacySession | None:
        members = self._seal.members("", ident.decode("latin-1"))
        if members is None:
            return None
        try:
            session = _decode_signed(members)
        except msgspec.DecodeError:
            return None
        return LegacySession(ident, session.version, session.features, session.owner)
