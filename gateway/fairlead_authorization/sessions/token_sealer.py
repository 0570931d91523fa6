"""Seals authorization codes and refresh tokens, which contain the person and the session. No I/O.

They are sealed with AES-SIV (RFC 5297), which needs no nonce: equal content gives equal tokens, so a refresh token can
be created again instead of being stored. A token that the gateway has not created is refused without reading the store.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, Literal

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

MAX_TEXT: Final = 2_048
"""Limit on the characters of a code or refresh token."""
_PROOF_BYTES: Final = 16
TextKind = Literal["code", "refresh"]


class TokenContent(msgspec.Struct, frozen=True, array_like=True):
    """Content of a code or refresh token."""

    person: bytes
    """Key of the person (`Identity.person`)."""
    session: str
    generation: int
    """Number of the refresh token; 0 for a code."""
    proof: bytes
    """Secret of the code, or MAC of the refresh token's number with the session's secret."""


class TokenSealer:
    """Seals and opens codes and refresh tokens with a key of 64 bytes."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESSIV(key)

    def seal(self, kind: TextKind, content: TokenContent) -> str:
        sealed = self._cipher.encrypt(msgspec.msgpack.encode(content), [kind.encode()])
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, kind: TextKind, text: str) -> TokenContent | None:
        """The content of a token; None if `text` was not sealed as `kind` with this key."""
        if len(text) > MAX_TEXT or not text.isascii():
            return None
        try:
            sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return msgspec.msgpack.decode(self._cipher.decrypt(sealed, [kind.encode()]), type=TokenContent)
        except (binascii.Error, InvalidTag, ValueError, msgspec.MsgspecError):
            return None


def refresh_proof(secret: bytes, generation: int) -> bytes:
    """MAC in the refresh token with the number `generation`."""
    return hmac.digest(secret, b"refresh %d" % generation, "sha256")[:_PROOF_BYTES]


def code_digest(proof: bytes) -> bytes:
    """Digest of a code's secret, which is stored."""
    return hashlib.sha256(proof).digest()
