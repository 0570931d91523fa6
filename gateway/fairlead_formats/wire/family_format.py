"""Base of the wire formats of all families. Pure module."""

from __future__ import annotations

from abc import ABC, abstractmethod

from msgspec import Raw

from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.media_types import EVENT_STREAM
from fairlead_formats.wire.raw_json import decoded, error_in, text_of
from fairlead_formats.wire.refused_keys import without_key


class FamilyFormat(ABC):
    """Wire format of one family: `WireFormat` without what only the family knows."""

    stream_type = EVENT_STREAM
    needs_call_ids = True
    request_headers: frozenset[str] = frozenset()

    def received(self, body: bytes) -> bytes:
        return body

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        found = decoded(message)
        return str(found.get("role", "")), text_of(found.get("content"))

    @abstractmethod
    def error_body(self, error: LlmError) -> bytes:
        """A refusal of the gateway's own in the client's format."""

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        return without_key(status, body, self.error_body)

    def error_in(self, body: bytes) -> bytes | None:
        return error_in(body)
