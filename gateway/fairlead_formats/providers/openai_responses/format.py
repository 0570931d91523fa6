"""Wire format of OpenAI Responses. Pure module.

Source: OpenAI's API reference, `POST /v1/responses`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Raw

from fairlead_formats.neutral.translation import FamilyTranslation
from fairlead_formats.providers.openai_chat import errors
from fairlead_formats.providers.openai_chat.format import ANSWER_HEADERS
from fairlead_formats.providers.openai_responses.answer import ResponsesAnswer
from fairlead_formats.providers.openai_responses.items import (
    COMPACTION_ITEM,
    REFERENCE,
    head_of,
    message_text,
    unmark_id,
    waiting_calls,
)
from fairlead_formats.providers.openai_responses.request import ResponsesRequest, remove_thoughts
from fairlead_formats.providers.openai_responses.rounds import reasoning_ids
from fairlead_formats.providers.openai_responses.stream import ResponsesStream
from fairlead_formats.providers.openai_responses.tools import OPENAI_RESPONSES
from fairlead_formats.providers.openai_responses.translation import answer as neutral_answer
from fairlead_formats.providers.openai_responses.translation import events as neutral_events
from fairlead_formats.providers.openai_responses.translation import messages as neutral_messages
from fairlead_formats.providers.openai_responses.translation import request as neutral_request
from fairlead_formats.providers.openai_responses.whole_events import whole_events
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.family_format import FamilyFormat
from fairlead_formats.wire.protocol import REASONING_ITEM, AnswerRange, CallKey, StoredTurn, WireRequest
from fairlead_formats.wire.raw_json import decode_object


class ResponsesFormat(FamilyFormat):
    """Wire format of OpenAI Responses."""

    name = OPENAI_RESPONSES
    answer_headers = ANSWER_HEADERS

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> ResponsesRequest:
        return ResponsesRequest(body)

    def path(self, model: str, *, stream: bool) -> str:
        return "/responses"

    def answer(self, body: bytes, request: WireRequest) -> ResponsesAnswer:
        return ResponsesAnswer(body, request)

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> ResponsesStream:
        return ResponsesStream(request, client_tools)

    def whole_events(self, body: bytes) -> list[bytes]:
        return whole_events(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> list[AnswerRange]:
        answer_ranges = []
        start: int | None = None
        for index, raw in enumerate([*messages, b"{}"]):
            if head_of(raw).is_from_model:
                start = index if start is None else start
            elif start is not None:
                calls = turn_keys(messages[start:index])
                answer_ranges += [AnswerRange(start, index, calls)] if calls else []
                start = None
        return answer_ranges

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        item = decode_object(message)
        if item.get("type", "message") != "message":
            return "tool", ""
        return str(item.get("role", "")), message_text(item)

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        restored_items: list[bytes | Raw] = []
        turn_ids = {head_of(item).id for turn in turns.values() for item in turn.messages}
        ends = {answer.start: answer.end for answer in self.answer_ranges(messages)}
        range_end = 0
        for index, raw in enumerate(messages):
            turn = turns.get(index)
            if turn is not None and index in ends:
                restored_items += _compactions_before(messages[index : ends[index]], turn)
                restored_items += [*turn.messages, *turn.results]
                range_end = ends[index]
            elif index >= range_end and not _refers_to(raw, turn_ids):
                restored_items.append(raw)
        return restored_items

    def error_body(self, error: LlmError) -> bytes:
        return errors.error_body(error)

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return remove_thoughts(body, keep_last)


def _refers_to(raw: bytes | Raw, idents: Collection[str | None]) -> bool:
    """Whether an item is a reference to an item with one of these ids. `idents`: ids as the provider sent them."""
    head = head_of(raw) if b'"item_reference"' in bytes(raw) else None
    return head is not None and head.kind == REFERENCE and unmark_id(head.id or "") in idents


def _compactions_before(answer: Sequence[bytes | Raw], turn: StoredTurn) -> list[bytes | Raw]:
    """Compaction items among an answer's items. They replace earlier answers, so the stored turn does not have them."""
    turn_ids = {head_of(raw).id for raw in turn.messages}
    return [raw for raw in answer if head_of(raw).kind == COMPACTION_ITEM and head_of(raw).id not in turn_ids]


def turn_keys(items: Sequence[bytes | Raw]) -> tuple[CallKey, ...]:
    """Keys under which the gateway may have stored the turn of an answer: its calls; if it has none, its last reasoning
    item.
    """
    calls = waiting_calls(items)
    if calls:
        return tuple(CallKey(str(call.get("call_id")), str(call.get("name", ""))) for call in calls)
    return tuple(CallKey(ident, REASONING_ITEM) for ident in reasoning_ids(items)[-1:])


RESPONSES: Final = ResponsesFormat()
TRANSLATION: Final = FamilyTranslation(
    name=OPENAI_RESPONSES,
    messages_member="input",
    requests=neutral_request,
    messages=neutral_messages,
    answers=neutral_answer,
    reader=neutral_events.ResponsesEventReader,
    writer=neutral_events.ResponsesEventWriter,
    errors=errors,
)
