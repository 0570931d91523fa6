"""Wire format of OpenAI Chat Completions. Pure module.

Source: OpenAI's API reference, `POST /v1/chat/completions`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Raw

from fairlead_formats.neutral.translation import FamilyTranslation
from fairlead_formats.providers.openai_chat import errors
from fairlead_formats.providers.openai_chat.answer import ChatAnswer, calls_of, name_of
from fairlead_formats.providers.openai_chat.functions.format import FunctionsFormat
from fairlead_formats.providers.openai_chat.functions.request import uses_functions
from fairlead_formats.providers.openai_chat.request import ChatRequest, remove_thoughts
from fairlead_formats.providers.openai_chat.stream import ChatStream
from fairlead_formats.providers.openai_chat.tools import OPENAI_CHAT
from fairlead_formats.providers.openai_chat.translation import answer as neutral_answer
from fairlead_formats.providers.openai_chat.translation import events as neutral_events
from fairlead_formats.providers.openai_chat.translation import messages as neutral_messages
from fairlead_formats.providers.openai_chat.translation import request as neutral_request
from fairlead_formats.providers.openai_chat.whole_events import whole_events
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.family_format import FamilyFormat
from fairlead_formats.wire.protocol import AnswerRange, CallKey, StoredTurn, WireFormat, WireRequest
from fairlead_formats.wire.raw_json import decode_object

ANSWER_HEADERS: Final = (
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "openai-processing-ms",
    "openai-version",
    "x-ratelimit-",
)
"""Headers of OpenAI's answers that are forwarded to the client."""


class ChatFormat(FamilyFormat):
    """OpenAI Chat Completions, which vLLM, Ollama, LiteLLM and others implement as well."""

    name = OPENAI_CHAT
    answer_headers = ANSWER_HEADERS

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> ChatRequest:
        return ChatRequest(body)

    def older_format(self, body: bytes) -> WireFormat | None:
        return FUNCTIONS if uses_functions(body) else None

    def path(self, model: str, *, stream: bool) -> str:
        return "/chat/completions"

    def answer(self, body: bytes, request: WireRequest) -> ChatAnswer:
        return ChatAnswer(body)

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> ChatStream:
        return ChatStream(client_tools, include_usage=isinstance(request, ChatRequest) and request.include_usage)

    def whole_events(self, body: bytes) -> list[bytes]:
        return whole_events(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> list[AnswerRange]:
        answer_ranges = []
        for index, raw in enumerate(messages):
            if b'"tool_calls"' not in bytes(raw):
                continue
            message = decode_object(raw)
            calls = tuple(CallKey(str(call.get("id", "")), name_of(call)) for call in calls_of(message))
            if calls and message.get("role") == "assistant":
                answer_ranges.append(AnswerRange(index, index + 1, calls))
        return answer_ranges

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        restored_messages: list[bytes | Raw] = []
        file_messages: list[bytes] = []
        for index, raw in enumerate(messages):
            if file_messages and decode_object(raw).get("role") != "tool":
                restored_messages += file_messages
                file_messages = []
            turn = turns.get(index)
            if turn is None:
                restored_messages.append(raw)
                continue
            restored_messages += turn.messages
            for message in turn.results:  # messages with files follow all results
                (restored_messages if decode_object(message).get("role") == "tool" else file_messages).append(message)
        return restored_messages + file_messages

    def error_body(self, error: LlmError) -> bytes:
        return errors.error_body(error)

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return remove_thoughts(body, keep_last)


CHAT: Final = ChatFormat()
FUNCTIONS: Final = FunctionsFormat(CHAT, native=True)
TRANSLATION: Final = FamilyTranslation(
    name=OPENAI_CHAT,
    messages_member="messages",
    requests=neutral_request,
    messages=neutral_messages,
    answers=neutral_answer,
    reader=neutral_events.ChatEventReader,
    writer=neutral_events.ChatEventWriter,
    errors=errors,
)
