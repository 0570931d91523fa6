"""Digests of conversations, by which a turn of one is known again. Pure module."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from fairlead_formats.wire.protocol import WireFormat

_NOT_SAID: Final = frozenset({"system", "developer", "tool"})
"""Roles that formats have in other places, and whose texts do not tell conversations apart."""


class ConversationDigest:
    """Digest of a conversation's roles and texts, which grows with it: each message is read once."""

    def __init__(self, wire: WireFormat) -> None:
        self._wire = wire
        self._read = 0
        self._digest = hashlib.blake2b(digest_size=24)

    def up_to(self, messages: Sequence[bytes | Raw], end: int) -> hashlib.blake2b:
        """The digest of the messages in front of `end`, which never goes back."""
        for message in messages[self._read : end]:
            role, text = self._wire.role_and_text(message)
            if role not in _NOT_SAID and text:
                self._digest.update(json.dumps([role, text]).encode())
        self._read = max(self._read, end)
        return self._digest.copy()
