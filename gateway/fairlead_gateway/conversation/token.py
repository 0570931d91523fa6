"""Encodes the state of a conversation as a signed token, so that the gateway stores no state between requests. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

import msgspec

from fairlead_gateway.conversation.turn import ConversationState

_MAC_BYTES: Final = 16
MAX_CHARACTERS: Final = 4096
"""Maximum number of characters of a token."""
_decode = msgspec.json.Decoder(ConversationState).decode


class ForgedState(ValueError):
    """A token that was not signed with this gateway's key, or is not a token."""


class Sealer:
    """Creates and verifies state tokens. Replicas behind one address share `key`."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"conversation state\0" + key).digest()

    def seal(self, state: ConversationState) -> str:
        """Encode and sign a state."""
        body = msgspec.json.encode(state)
        return base64.urlsafe_b64encode(self._mac(body) + body).decode().rstrip("=")

    def open(self, token: str) -> ConversationState:
        """Verify and decode a token; an empty token is the initial state. Raises ForgedState."""
        if not token:
            return ConversationState()
        if len(token) > MAX_CHARACTERS:
            raise ForgedState(f"the conversation state is longer than {MAX_CHARACTERS} characters")
        try:
            data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError) as error:
            raise ForgedState("the conversation state is not a token of this gateway") from error
        if not hmac.compare_digest(data[:_MAC_BYTES], self._mac(data[_MAC_BYTES:])):
            raise ForgedState("the conversation state was not signed with this gateway's key")
        return _decode(data[_MAC_BYTES:])

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_MAC_BYTES]
