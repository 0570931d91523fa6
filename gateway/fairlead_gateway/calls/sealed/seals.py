"""Message authentication codes that bind a server's opaque values to the principal that they were issued to.

Nothing is kept: replicas that share the key of sessions verify each other's codes, and so does a gateway after a
restart. Each purpose has a key of its own, so that a code for one says nothing for another.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets


class Seal:
    """Makes and verifies codes for one purpose (at most 16 characters). Without `key`, that of this process."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self._key = hashlib.blake2b(key or secrets.token_bytes(32), digest_size=32, person=purpose.encode()).digest()

    def mac(self, owner: str, value: str) -> str:
        """Code of a value of that owner, 32 hexadecimal digits."""
        message = f"{owner} {value}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(message, key=self._key, digest_size=16).hexdigest()

    def verifies(self, mac: str, owner: str, value: str) -> bool:
        return hmac.compare_digest(mac.encode("utf-8", "surrogatepass"), self.mac(owner, value).encode())
