"""Wire format of Gemini's generateContent. Pure module.

Source: Google's API reference, `models.generateContent` and `models.streamGenerateContent` of v1beta.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Raw

from fairlead_formats.neutral.translation import FamilyTranslation
from fairlead_formats.providers.gemini import errors
from fairlead_formats.providers.gemini import turns as stored_turns
from fairlead_formats.providers.gemini.answer import GeminiAnswer
from fairlead_formats.providers.gemini.carried_ids import restore_ids
from fairlead_formats.providers.gemini.paths import GENERATE, STREAM, path_of
from fairlead_formats.providers.gemini.request import GeminiRequest
from fairlead_formats.providers.gemini.signatures import remove_thoughts
from fairlead_formats.providers.gemini.stream import GeminiStream
from fairlead_formats.providers.gemini.tools import GEMINI
from fairlead_formats.providers.gemini.translation import answer as neutral_answer
from fairlead_formats.providers.gemini.translation import events as neutral_events
from fairlead_formats.providers.gemini.translation import messages as neutral_messages
from fairlead_formats.providers.gemini.translation import request as neutral_request
from fairlead_formats.providers.gemini.whole_events import whole_events
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.family_format import FamilyFormat
from fairlead_formats.wire.protocol import EVENT_STREAM, AnswerRange, BadRequest, StoredTurn, WireRequest


class GeminiFormat(FamilyFormat):
    """Wire format of Gemini's generateContent, in Google's API for developers and compatible APIs."""

    name = GEMINI
    needs_call_ids = False
    request_headers = frozenset({"x-goog-api-client", "x-goog-user-project", "x-server-timeout"})
    answer_headers = ("retry-after", "server-timing", "x-gemini-service-tier", "x-goog-", "x-request-id")

    def __init__(self, *, array: bool = False) -> None:
        """`array`: streams are JSON arrays, as Gemini sends them to clients that do not request server-sent events."""
        self._array = array
        self.stream_type = "application/json" if array else EVENT_STREAM

    def receive(self, body: bytes) -> bytes:
        return restore_ids(body)

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> GeminiRequest:
        if model is None:
            raise BadRequest("the path has no model: use /v1beta/models/MODEL:METHOD", "model")
        return GeminiRequest(body, model, bool(stream))

    def path(self, model: str, *, stream: bool) -> str:
        return path_of(model, STREAM if stream else GENERATE)

    def answer(self, body: bytes, request: WireRequest) -> GeminiAnswer:
        return GeminiAnswer(body)

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> GeminiStream:
        return GeminiStream(client_tools, array=self._array)

    def whole_events(self, body: bytes) -> list[bytes]:
        return whole_events(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> list[AnswerRange]:
        return stored_turns.answer_ranges(messages)

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        return stored_turns.role_and_text(message)

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        return stored_turns.restore_turns(messages, turns)

    def error_body(self, error: LlmError) -> bytes:
        return errors.error_body(error)

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return remove_thoughts(body, keep_last)

    def error_in(self, body: bytes) -> bytes | None:
        return errors.error_in(body)


GEMINI_EVENTS: Final = GeminiFormat()
GEMINI_ARRAY: Final = GeminiFormat(array=True)
TRANSLATION: Final = FamilyTranslation(
    name=GEMINI,
    messages_member="contents",
    requests=neutral_request,
    messages=neutral_messages,
    answers=neutral_answer,
    reader=neutral_events.GeminiEventReader,
    writer=neutral_events.GeminiEventWriter,
    errors=errors,
)
