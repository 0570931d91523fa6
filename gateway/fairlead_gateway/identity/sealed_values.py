"""Encrypts structs to texts for cookies and links, which browsers keep for the gateway; the gateway stores nothing.

Values are sealed with AES-256-GCM under a key that is derived from the installation's `session_key`, so that replicas
with the same Secret accept each other's values.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from typing import Final

import msgspec

MAX_SEALED: Final = 3800
"""Maximum length of a sealed value in characters. Browsers store cookies of up to 4,096 bytes, with name and
attributes.
"""
_NONCE_BYTES: Final = 12


class ValueTooLong(ValueError):
    """The content is too long for a cookie or a link."""


class ValueSealer:
    """Encrypts and decrypts the values of one use."""

    def __init__(self, key: bytes, use: bytes) -> None:
        """`key` is the installation's key; if it is empty, this process makes a random key. `use` has at most 16 bytes;
        a value that was sealed for one use is invalid for another.
        """
        # imported with the first sealer: calls do not need `cryptography`
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._invalid_tag_error = InvalidTag
        derived = hashlib.blake2b(key or secrets.token_bytes(32), digest_size=32, person=use).digest()
        self._cipher = AESGCM(derived)
        self.key_id = hashlib.blake2b(derived, digest_size=4).hexdigest()
        """Text that identifies the key without revealing it."""

    def seal(self, content: msgspec.Struct, purpose: str) -> str:
        """Encrypt a struct. `purpose` is authenticated with it, so that the value is not accepted for another purpose.

        Raises ValueTooLong.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        ciphertext = self._cipher.encrypt(nonce, msgspec.json.encode(content), purpose.encode())
        value = base64.urlsafe_b64encode(nonce + ciphertext).rstrip(b"=").decode()
        if len(value) > MAX_SEALED:
            raise ValueTooLong
        return value

    def open(self, value: str, purpose: str) -> bytes | None:
        """Decrypt a value to JSON; None if it was not sealed with this key for `purpose`."""
        if len(value) > MAX_SEALED:
            return None
        try:
            data = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], purpose.encode())
        except (binascii.Error, self._invalid_tag_error, ValueError):
            return None
