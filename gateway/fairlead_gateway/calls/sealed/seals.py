"""Seals on values that clients hold for the gateway: message authentication codes that bind each to the principal that
it was issued to.

Nothing is kept: replicas that share the key of sessions take each other's values, and so does a gateway after a
restart. Each purpose has a key of its own, so that a code for one says nothing for another.
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
    """Makes and verifies codes for one purpose (at most 16 characters). Without `key`, that of this process. `owner` is
    `Identity.owner`, empty for what anybody may show.
    """

    def __init__(self, key: bytes, purpose: str) -> None:
        self._key = hashlib.blake2b(key or secrets.token_bytes(32), digest_size=32, person=purpose.encode()).digest()

    def mac(self, owner: str, value: str) -> str:
        """Code of a value of that owner, 32 hexadecimal digits."""
        message = f"{owner} {value}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(message, key=self._key, digest_size=16).hexdigest()

    def verifies(self, mac: str, owner: str, value: str) -> bool:
        return hmac.compare_digest(mac.encode("utf-8", "surrogatepass"), self.mac(owner, value).encode())

    def token(self, owner: str, members: bytes) -> str:
        """A value of the gateway's own: the code, a dot, and `members` in base64url."""
        payload = base64.urlsafe_b64encode(members).rstrip(b"=").decode()
        return f"{self.mac(owner, payload)}.{payload}"

    def members(self, owner: str, token: str) -> bytes | None:
        """The members in a token; None where it was not made with this key for this owner."""
        match = _TOKEN.fullmatch(token)
        if match is None or not self.verifies(match[1], owner, match[2]):
            return None
        try:
            return base64.urlsafe_b64decode(match[2] + "=" * (-len(match[2]) % 4))
        except binascii.Error:
            return None

    def marked(self, owner: str, source: str, value: str) -> str:
        """A value of somebody else, whose `source` (a server, a provider) it names, with the code in front."""
        return f"fairlead-of.{self.mac(owner, f'{source} {value}')}.{value}"

    def unmarked(self, owner: str, source: str, marked: str) -> str | None:
        """The value that was marked; None where it was not, with this key for this owner and source."""
        mark = _MARK.match(marked)
        if mark is None:
            return None
        value = marked[mark.end() :]
        return value if self.verifies(mark[1], owner, f"{source} {value}") else None
