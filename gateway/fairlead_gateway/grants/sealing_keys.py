"""Keys that seal stored grants: an id and 32 bytes, written as `ID:BASE64URL`. No I/O.

Several keys allow a rotation: the first key seals, and all keys open.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Final, NamedTuple

KEY_BYTES: Final = 32
MAX_KEYS: Final = 16
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SEPARATORS: Final = re.compile(r"[\s,]+")


class BadSealingKeys(ValueError):
    """The text is not a list of keys. The message says why, and quotes no key."""


class SealingKey(NamedTuple):
    """A key and its id. Each record contains the id of its key. `repr` does not show the key."""

    id: str
    secret: bytes
    """32 random bytes."""

    def __repr__(self) -> str:
        return f"SealingKey(id={self.id!r})"

    @property
    def text(self) -> str:
        """The key as it is stored."""
        return f"{self.id}:{base64.urlsafe_b64encode(self.secret).decode().rstrip('=')}"


def new_sealing_key(kind: str) -> SealingKey:
    """A random key, whose id begins with `kind`."""
    return SealingKey(f"{kind}-{secrets.token_hex(4)}", secrets.token_bytes(KEY_BYTES))


def read_sealing_keys(text: str) -> tuple[SealingKey, ...]:
    """Keys of a text, separated by commas or white space. Raises BadSealingKeys."""
    keys = tuple(_read_key(key_text) for key_text in _SEPARATORS.split(text) if key_text)
    if not 1 <= len(keys) <= MAX_KEYS:
        raise BadSealingKeys(f"there must be 1 to {MAX_KEYS} keys, each as ID:KEY")
    if len({key.id for key in keys}) < len(keys):
        raise BadSealingKeys("each key needs an id of its own")
    return keys


def _read_key(key_text: str) -> SealingKey:
    ident, colon, encoded = key_text.partition(":")
    if not colon or not _ID.fullmatch(ident):  # without a colon, the text may be the key itself
        raise BadSealingKeys("a key must be ID:KEY, with an id of at most 64 letters, digits, '-', '_' and '.'")
    standard = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        secret = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise BadSealingKeys(f"the key {ident} must be {KEY_BYTES} random bytes as base64: `openssl rand -base64 32`")
    return SealingKey(ident, secret)
