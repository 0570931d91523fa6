"""Base classes of every family's wire format and client request. Pure module.

Requests are read as raw members, so that members which the gateway does not interpret reach the provider unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.wire.errors import LlmError, hide_key
from fairlead_formats.wire.protocol import EVENT_STREAM, BadRequest, ProviderEventParser, TranslationLosses, WireFormat
from fairlead_formats.wire.raw_json import array, decode_object, error_in, text_of
from fairlead_mcp.misread_values import misreading_of
from fairlead_mcp.sse import EventParser

GATEWAY_MEMBER: Final = "fairlead"
"""Member of a request with options for the gateway, which is not sent to the provider."""


class FamilyFormat(ABC):
    """Parts of `WireFormat` that all families share."""

    stream_type = EVENT_STREAM
    needs_call_ids = True
    request_headers: frozenset[str] = frozenset()

    def older_format(self, body: bytes) -> WireFormat | None:
        return None

    def receive(self, body: bytes) -> bytes:
        return body

    def event_parser(self, max_event: int) -> ProviderEventParser:
        return EventParser(max_event)

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        decoded_message = decode_object(message)
        return str(decoded_message.get("role", "")), text_of(decoded_message.get("content"))

    @abstractmethod
    def error_body(self, error: LlmError) -> bytes:
        """Body of an error of the gateway, in the client's format."""

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        return hide_key(status, body, self.error_body)

    def error_in(self, body: bytes) -> bytes | None:
        return error_in(body)


@contextmanager
def reading_body() -> Iterator[None]:
    """Turn errors of reading a request body in the `with` block into BadRequest."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        misreading = misreading_of(error)
        raise BadRequest(misreading.about("the body"), misreading.path or None) from error


class FamilyRequest:
    """Parts of `WireRequest` that all families share."""

    model: str
    stream: bool
    gateway_options: Raw
    no_injection = False
    single_call = False
    losses: TranslationLosses | None = None
    client_messages: Sequence[bytes | Raw]
    messages: Sequence[bytes | Raw]
    tool_names: frozenset[str]
    _members: dict[str, Raw]
    _tools: Sequence[Raw] = ()

    def _take_messages(self, messages: Sequence[bytes | Raw], member: str) -> None:
        """Set the messages. Raises BadRequest for an empty list; `member` is its name in the request."""
        if not messages:
            raise BadRequest(f"{member}: the request needs at least one entry", member)
        self.client_messages = self.messages = messages

    @property
    def tools(self) -> bytes:
        return array(self._tools)

    @property
    def restored_bytes(self) -> int:
        return 0 if self.messages is self.client_messages else _size(self.messages) - _size(self.client_messages)


def _size(messages: Sequence[bytes | Raw]) -> int:
    return sum(memoryview(message).nbytes for message in messages)
