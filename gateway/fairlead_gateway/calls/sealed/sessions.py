"""Session ids of legacy clients: signed, and holding all that there is to a session.

Pure but for the randomness given. A session is what a client said of itself in `initialize`; its id carries that back,
so that nothing is kept for an idle client (MCP 2025-11-25, Transports, "Session Management"; Lifecycle,
"Initialization").
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

_REMEMBERED: Final = 4096
_MAX_ID: Final = 1024
"""Bytes of the longest id that is looked at."""
MAX_FOREIGN_ID: Final = 256
"""Bytes of an id that is remembered although it was not signed here."""
_decode_signed: Final = msgspec.json.Decoder(SignedSession).decode


class SessionIds:
    """Signs and reads ids with one key; replicas that share the key read each other's."""

    def __init__(self, key: bytes = b"", nonce: Callable[[], str] = lambda: secrets.token_urlsafe(18)) -> None:
        self._seal = Seal(key, "sessions")
        self._nonce = nonce
        self._verified_sessions: dict[bytes, LegacySession | None] = {}
        self._ended: OrderedDict[bytes, None] = OrderedDict()

    def issue(self, version: str, capabilities: bytes | Raw, owner: str = "") -> bytes:
        """A new id, visible ASCII."""
        signed = SignedSession(version, self._nonce(), normalize(capabilities), owner)
        return self._seal.token("", msgspec.json.encode(signed)).encode()

    def read(self, ident: bytes) -> LegacySession | None:
        """The session of an id; None where it was not signed here."""
        try:
            return self._verified_sessions[ident]
        except KeyError:
            pass
        session = self._verify(ident) if len(ident) <= _MAX_ID else None
        if session is not None or len(ident) <= MAX_FOREIGN_ID:
            if len(self._verified_sessions) >= _REMEMBERED:
                self._verified_sessions.clear()
            self._verified_sessions[ident] = session
        return session

    def opened_by(self, owner: str, ident: bytes | None) -> bool:
        """Whether the id is that of a session of `owner`, ended or not."""
        session = None if ident is None else self.read(ident)
        return session is not None and session.owner == owner

    def end(self, ident: bytes) -> bool:
        """End a session; False where its id was not issued here, or has ended. The latest 4,096 ends are remembered."""
        if self.read(ident) is None or ident in self._ended:
            return False
        self._ended[ident] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        return True

    def has_ended(self, ident: bytes | None) -> bool:
        return bool(self._ended) and ident in self._ended

    def _verify(self, ident: bytes) -> LegacySession | None:
        members = self._seal.members("", ident.decode("latin-1"))
        if members is None:
            return None
        try:
            signed = _decode_signed(members)
        except msgspec.DecodeError:
            return None
        return LegacySession(ident, signed.version, signed.features, signed.owner)
