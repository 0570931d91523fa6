"""Wire format of Amazon Bedrock's Converse and ConverseStream. Pure module.

Source: Amazon Bedrock API reference, and the service description in botocore.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.neutral.translation import FamilyTranslation
from fairlead_formats.providers.bedrock import errors
from fairlead_formats.providers.bedrock.answer import BedrockAnswer
from fairlead_formats.providers.bedrock.blocks import TOOL_RESULT, TOOL_USE, Block, as_request, blocks_of, call_in
from fairlead_formats.providers.bedrock.event_stream import CONTENT_TYPE, EventStreamParser
from fairlead_formats.providers.bedrock.paths import CONVERSE, STREAM, path_of
from fairlead_formats.providers.bedrock.request import BedrockRequest, remove_thoughts
from fairlead_formats.providers.bedrock.stream import BedrockStream
from fairlead_formats.providers.bedrock.tools import BEDROCK as FORMAT_NAME
from fairlead_formats.providers.bedrock.translation import answer as neutral_answer
from fairlead_formats.providers.bedrock.translation import events as neutral_events
from fairlead_formats.providers.bedrock.translation import messages as neutral_messages
from fairlead_formats.providers.bedrock.translation import request as neutral_request
from fairlead_formats.providers.bedrock.whole_events import whole_events
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.family_format import FamilyFormat
from fairlead_formats.wire.protocol import AnswerRange, BadRequest, CallKey, StoredTurn, WireRequest
from fairlead_formats.wire.raw_json import decode_object

_CALL: Final = f'"{TOOL_USE}"'.encode()
_encode: Final = msgspec.json.Encoder().encode


class BedrockFormat(FamilyFormat):
    """Wire format of Converse."""

    name = FORMAT_NAME
    stream_type = CONTENT_TYPE
    answer_headers = ("retry-after", "x-amzn-requestid", "x-amzn-bedrock-")

    def event_parser(self, max_event: int) -> EventStreamParser:
        return EventStreamParser(max_event)

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> BedrockRequest:
        if model is None:
            raise BadRequest("the path has no model: use /model/MODEL/converse", "modelId")
        return BedrockRequest(body, model, bool(stream))

    def path(self, model: str, *, stream: bool) -> str:
        return path_of(model, STREAM if stream else CONVERSE)

    def answer(self, body: bytes, request: WireRequest) -> BedrockAnswer:
        return BedrockAnswer(body)

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> BedrockStream:
        return BedrockStream(client_tools)

    def whole_events(self, body: bytes) -> list[bytes]:
        return whole_events(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> list[AnswerRange]:
        ranges = []
        for index, raw in enumerate(messages):
            message = decode_object(raw) if _CALL in bytes(raw) else {}
            calls = [call_in(block) for block in blocks_of(message.get("content"))]
            keys = tuple(CallKey(str(call.get("toolUseId", "")), str(call.get("name", ""))) for call in calls if call)
            if keys and message.get("role") == "assistant":
                ranges.append(AnswerRange(index, index + 1, keys))
        return ranges

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        provider_messages: list[bytes | Raw] = []
        pending_results: list[Block] = []
        for index, raw in enumerate(messages):
            turn = turns.get(index)
            message = decode_object(raw) if pending_results else {}
            if turn is not None:
                provider_messages += [*as_request("user", pending_results), *turn.messages]
                pending_results = [
                    block for result in turn.results for block in blocks_of(decode_object(result).get("content"))
                ]
                continue
            if not pending_results:
                provider_messages.append(raw)
            elif message.get("role") == "user":
                provider_messages.append(_with_results(message, pending_results))
            else:
                provider_messages += [*as_request("user", pending_results), raw]
            pending_results = []
        return [*provider_messages, *as_request("user", pending_results)]

    def error_body(self, error: LlmError) -> bytes:
        return errors.error_body(error)

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        return errors.write_provider_refusal(status, body)

    def error_in(self, body: bytes) -> bytes | None:
        return errors.error_in(body)

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return remove_thoughts(body, keep_last)


def _with_results(message: Mapping[str, Any], results: Sequence[Block]) -> bytes:
    """A user message with the gateway's `results` in front: the API requires all results in one message."""
    blocks = blocks_of(message.get("content"))
    ordered_blocks = sorted(blocks, key=lambda block: TOOL_RESULT not in block)
    return _encode({**message, "content": [*results, *ordered_blocks]})


BEDROCK: Final = BedrockFormat()
TRANSLATION: Final = FamilyTranslation(
    name=FORMAT_NAME,
    messages_member="messages",
    requests=neutral_request,
    messages=neutral_messages,
    answers=neutral_answer,
    reader=neutral_events.BedrockEventReader,
    writer=neutral_events.BedrockEventWriter,
    errors=errors,
)
