"""Wire format of Anthropic Messages. Pure module.

Source: Anthropic's API reference, `POST /v1/messages`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Raw

from fairlead_formats.neutral.translation import FamilyTranslation
from fairlead_formats.providers.anthropic import errors, history
from fairlead_formats.providers.anthropic.answer import AnthropicAnswer
from fairlead_formats.providers.anthropic.api import MESSAGES
from fairlead_formats.providers.anthropic.blocks import (
    FOREIGN_SIGNATURE,
    MARK,
    SIGNED,
    TOOL_USE,
    thought_key,
    tool_name,
)
from fairlead_formats.providers.anthropic.request import AnthropicRequest, remove_thoughts
from fairlead_formats.providers.anthropic.stream import AnthropicStream
from fairlead_formats.providers.anthropic.tools import ANTHROPIC as FORMAT_NAME
from fairlead_formats.providers.anthropic.translation import answer as neutral_answer
from fairlead_formats.providers.anthropic.translation import events as neutral_events
from fairlead_formats.providers.anthropic.translation import messages as neutral_messages
from fairlead_formats.providers.anthropic.translation import request as neutral_request
from fairlead_formats.providers.anthropic.whole_events import whole_events
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.family_format import FamilyFormat
from fairlead_formats.wire.protocol import AnswerRange, CallKey, StoredTurn, WireRequest
from fairlead_formats.wire.raw_json import decode_object

_MARK: Final = MARK.encode()


class AnthropicFormat(FamilyFormat):
    """Wire format of Anthropic Messages."""

    name = FORMAT_NAME
    request_headers = frozenset({"anthropic-version", "anthropic-beta"})
    answer_headers = (
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "request-id",
        "anthropic-ratelimit-",
        "anthropic-priority-",
    )

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> AnthropicRequest:
        return AnthropicRequest(body)

    def path(self, model: str, *, stream: bool) -> str:
        return MESSAGES

    def answer(self, body: bytes, request: WireRequest) -> AnthropicAnswer:
        return AnthropicAnswer(body)

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> AnthropicStream:
        return AnthropicStream(client_tools)

    def whole_events(self, body: bytes) -> list[bytes]:
        return whole_events(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> list[AnswerRange]:
        answer_ranges = []
        for index, raw in enumerate(messages):
            if b'"tool_use"' not in bytes(raw) and _MARK not in bytes(raw):
                continue
            message = decode_object(raw)
            keys = _turn_keys(message.get("content")) if message.get("role") == "assistant" else ()
            if keys:
                answer_ranges.append(AnswerRange(index, index + 1, keys))
        return answer_ranges

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        return history.restore_turns(messages, turns)

    def error_body(self, error: LlmError) -> bytes:
        return errors.error_body(error)

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return remove_thoughts(body, keep_last)


def _turn_keys(content: object) -> tuple[CallKey, ...]:
    """Keys under which the gateway may have stored the turn of an answer: its calls; if it has none, its last thinking
    block whose signature has the gateway's prefix.
    """
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    calls = tuple(CallKey(str(b.get("id", "")), tool_name(b)) for b in blocks if b.get("type") == TOOL_USE)
    if calls:
        return calls
    signatures = [str(block.get(SIGNED.get(str(block.get("type")), ""), "")) for block in blocks]
    marked_signatures = [
        signature for signature in signatures if signature.startswith(MARK) and signature != FOREIGN_SIGNATURE
    ]
    key = thought_key(marked_signatures[-1]) if marked_signatures else None
    return () if key is None else (key,)


ANTHROPIC: Final = AnthropicFormat()
TRANSLATION: Final = FamilyTranslation(
    name=FORMAT_NAME,
    messages_member="messages",
    requests=neutral_request,
    messages=neutral_messages,
    answers=neutral_answer,
    reader=neutral_events.AnthropicEventReader,
    writer=neutral_events.AnthropicEventWriter,
    errors=errors,
)
