"""Message authentication codes (MACs) on values that the gateway gives to a client, so that it accepts them back from
the same principal only.

Nothing is stored: replicas that share the session key accept each other's values, also after a restart. Each purpose
has its own derived key, so that a MAC for one purpose is invalid for all others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

_MAC: Final = "([0-9a-f]{32})"
_TOKEN: Final = re.compile(rf"{_MAC}\.([A-Za-z0-9_-]+)")
_MARK: Final = re.compile(rf"fairlead-of\.{_MAC}\.")


class Seal:
    """Creates and verifies MACs for one purpose, a name of at most 16 characters.

    With an empty `key`, a random key of this process is used. In all methods `owner` is an `Identity.owner`, or empty
    for a value that any principal may present.
    """

    def __init__(self, key: bytes, purpose: str) -> None:
        self._key = hashlib.blake2b(key or secrets.token_bytes(32), digest_size=32, person=purpose.encode()).digest()

    def mac(self, owner: str, value: str) -> str:
        """MAC of a value for an owner, 32 hexadecimal digits."""
        message = f"{owner} {value}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(message, key=self._key, digest_size=16).hexdigest()

    def verifies(self, mac: str, owner: str, value: str) -> bool:
        return hmac.compare_digest(mac.encode("utf-8", "surrogatepass"), self.mac(owner, value).encode())

    def token(self, owner: str, members: bytes) -> str:
        """Token with the MAC, a dot, and `members` in base64url."""
        payload = base64.urlsafe_b64encode(members).rstrip(b"=").decode()
        return f"{self.mac(owner, payload)}.{payload}"

    def members(self, owner: str, token: str) -> bytes | None:
        """The members in a token; None if its MAC is invalid for this key and owner."""
        match = _TOKEN.fullmatch(token)
        if match is None or not self.verifies(match[1], owner, match[2]):
            return None
        try:
            return base64.urlsafe_b64decode(match[2] + "=" * (-len(match[2]) % 4))
        except binascii.Error:
            return None

    def mark(self, owner: str, source: str, value: str) -> str:
        """A value of another party, prefixed by a MAC over owner, `source` (a server or provider) and value."""
        return f"fairlead-of.{self.mac(owner, f'{source} {value}')}.{value}"

    def unmark(self, owner: str, source: str, marked: str) -> str | None:
        """The original of a marked value; None if its MAC is invalid for this key, owner and source."""
        mark = _MARK.match(marked)
        if mark is None:
            return None
        value = marked[mark.end() :]
        return value if self.verifies(mark[1], owner, f"{source} {value}") else None
