"""Conversion of whole answers between Bedrock Converse and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.messages.base import SERVER_TOOL
from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.answers import AnswerPart, ReportedUsage, StopReason, TranslatedAnswer, number
from fairlead_formats.neutral.conversation import (
    CallPart,
    NeutralRequest,
    RefusalPart,
    TextPart,
    ThinkingPart,
    valid_call,
)
from fairlead_formats.providers.bedrock.blocks import FOREIGN_SIGNATURE, REASONING
from fairlead_formats.providers.bedrock.translation.messages import FORMAT
from fairlead_formats.wire.protocol import TranslationLosses

_NEUTRAL_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "sequence",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "guardrail_intervened": "filter",
    "content_filtered": "filter",
    "malformed_model_output": "malformed",
    "malformed_tool_use": "malformed",
}
STOP_REASONS: Final[Mapping[StopReason, str]] = {
    "end": "end_turn",
    "sequence": "stop_sequence",
    "calls": "tool_use",
    "length": "max_tokens",
    "context": "model_context_window_exceeded",
    "filter": "content_filtered",
    "refusal": "content_filtered",
    "pause": "end_turn",
    "malformed": "malformed_model_output",
}


def read_stop(reason: object) -> StopReason:
    """The neutral stop reason for an answer's `stopReason`."""
    return _NEUTRAL_STOP_REASONS.get(text_of(reason), "end")


def read_answer(body: Mapping[str, Any], losses: TranslationLosses) -> TranslatedAnswer:
    """Read a whole answer. Its id and model are empty, because answers of Converse have neither."""
    message = member(body.get("output"), "message")
    parts = tuple(_parts(items(member(message, "content")), losses))
    return TranslatedAnswer("", "", 0, parts, read_stop(body.get("stopReason")))


def _parts(blocks: list[Any], losses: TranslationLosses) -> Iterator[AnswerPart]:
    calls = iter(FORMAT.parse_calls(blocks))
    for block, part in zip(blocks, FORMAT.parts(blocks), strict=False):
        if part.draft is not None:
            yield CallPart(valid_call(next(calls), losses))
        elif text := text_of(member(member(member(block, REASONING), "reasoningText"), "text")):
            yield ThinkingPart(text)
        elif part.what == SERVER_TOOL:
            losses.add("provider_tools")
        elif part.text:
            yield TextPart(part.text)
        elif cited_pieces := items(member(member(block, "citationsContent"), "content")):
            losses.add("citations")
            yield TextPart("".join(text_of(member(piece, "text")) for piece in cited_pieces))
        elif member(block, "image") is not None:
            losses.add("answer_media")


def read_usage(usage: Mapping[str, Any]) -> ReportedUsage:
    """Read token usage. `inputTokens` excludes tokens of the cache, which the neutral input includes."""
    uncached_tokens = number(usage.get("inputTokens"))
    cached_tokens, written_tokens = (
        number(usage.get("cacheReadInputTokens")),
        number(usage.get("cacheWriteInputTokens")),
    )
    total = None if uncached_tokens is None else uncached_tokens + (cached_tokens or 0) + (written_tokens or 0)
    return ReportedUsage(total, cached_tokens, written_tokens, number(usage.get("outputTokens")))


def write_usage(usage: ReportedUsage) -> dict[str, Any]:
    """Write token usage. Clients require counts of input, output and both together, so an unknown count is 0."""
    uncached_tokens = max((usage.input or 0) - (usage.cached or 0) - (usage.cache_write or 0), 0)
    members = {"inputTokens": uncached_tokens, "outputTokens": usage.output or 0, "totalTokens": usage.total or 0}
    cache = {"cacheReadInputTokens": usage.cached, "cacheWriteInputTokens": usage.cache_write}
    return members | {name: value for name, value in cache.items() if value is not None}


def write_answer(
    answer: TranslatedAnswer, usage: ReportedUsage, request: NeutralRequest, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a whole answer."""
    content: list[dict[str, Any]] = []
    for part in answer.parts:
        if isinstance(part, CallPart):
            content += FORMAT.write_calls([part.call])[0]["content"]
        elif isinstance(part, ThinkingPart):
            content.append({REASONING: {"reasoningText": {"text": part.text, "signature": FOREIGN_SIGNATURE}}})
        elif isinstance(part, (TextPart, RefusalPart)):
            content.append({"text": part.text})
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": STOP_REASONS[answer.stop],
        "usage": write_usage(usage),
        "metrics": {"latencyMs": 0},
    }
