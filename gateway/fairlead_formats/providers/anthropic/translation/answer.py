"""Conversion of whole answers between Anthropic Messages and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.messages.base import SERVER_TOOL
from fairlead_formats.messages.call import is_truncated, items, member, text_of
from fairlead_formats.neutral.answers import AnswerPart, ReportedUsage, StopReason, TranslatedAnswer, number
from fairlead_formats.neutral.conversation import (
    CallPart,
    NeutralRequest,
    RefusalPart,
    TextPart,
    ThinkingPart,
    valid_call,
)
from fairlead_formats.providers.anthropic.blocks import FOREIGN_SIGNATURE
from fairlead_formats.providers.anthropic.translation.messages import FORMAT
from fairlead_formats.wire.protocol import TranslationLosses

_NEUTRAL_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "sequence",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "refusal",
    "pause_turn": "pause",
}
STOP_REASONS: Final[Mapping[StopReason, str]] = {
    "end": "end_turn",
    "sequence": "stop_sequence",
    "calls": "tool_use",
    "length": "max_tokens",
    "context": "model_context_window_exceeded",
    "filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
    "malformed": "end_turn",
}


def read_stop(reason: object) -> StopReason:
    """The neutral stop reason for a message's `stop_reason`."""
    return _NEUTRAL_STOP_REASONS.get(text_of(reason), "end")


def read_answer(body: Mapping[str, Any], losses: TranslationLosses) -> TranslatedAnswer:
    """Read a whole answer."""
    blocks = items(body.get("content"))
    sequence = body.get("stop_sequence")
    return TranslatedAnswer(
        text_of(body.get("id")),
        text_of(body.get("model")),
        0,
        tuple(_parts(blocks, losses, truncated=is_truncated(body))),
        read_stop(body.get("stop_reason")),
        sequence if isinstance(sequence, str) else None,
    )


def _parts(blocks: list[Any], losses: TranslationLosses, *, truncated: bool) -> Iterator[AnswerPart]:
    calls = iter(FORMAT.parse_calls(blocks, truncated=truncated))
    for block, part in zip(blocks, FORMAT.parts(blocks), strict=False):
        if part.draft is not None:
            yield CallPart(next(calls))
        elif member(block, "type") == "thinking":
            yield ThinkingPart(text_of(member(block, "thinking")))
        elif part.what == SERVER_TOOL:
            losses.add("provider_tools")
        elif part.text:
            losses.update(part.extras)
            yield TextPart(part.text)


def read_usage(usage: Mapping[str, Any]) -> ReportedUsage:
    """Read token usage. `input_tokens` excludes tokens of the cache, which the neutral input includes."""
    uncached_tokens = number(usage.get("input_tokens"))
    cached_tokens, written_tokens = (
        number(usage.get("cache_read_input_tokens")),
        number(usage.get("cache_creation_input_tokens")),
    )
    thoughts = number(member(usage.get("output_tokens_details"), "thinking_tokens"))
    total = None if uncached_tokens is None else uncached_tokens + (cached_tokens or 0) + (written_tokens or 0)
    return ReportedUsage(total, cached_tokens, written_tokens, number(usage.get("output_tokens")), thoughts)


def write_usage(usage: ReportedUsage) -> dict[str, Any]:
    """Write token usage. Clients require counts of input and output, so an unknown count is written as 0."""
    uncached_tokens = max((usage.input or 0) - (usage.cached or 0) - (usage.cache_write or 0), 0)
    members: dict[str, Any] = {"input_tokens": uncached_tokens, "output_tokens": usage.output or 0}
    cache = {"cache_read_input_tokens": usage.cached, "cache_creation_input_tokens": usage.cache_write}
    members |= {name: value for name, value in cache.items() if value is not None}
    if usage.reasoning is not None:
        members["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return members


def write_answer(
    answer: TranslatedAnswer, usage: ReportedUsage, request: NeutralRequest, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a whole answer."""
    content: list[dict[str, Any]] = []
    for part in answer.parts:
        if isinstance(part, CallPart):
            content += FORMAT.write_calls([valid_call(part.call, losses)])[0]["content"]
        elif isinstance(part, ThinkingPart):
            content.append({"type": "thinking", "thinking": part.text, "signature": FOREIGN_SIGNATURE})
        elif isinstance(part, (TextPart, RefusalPart)):
            content.append({"type": "text", "text": part.text})
    return {
        "id": message_id(answer.id),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": STOP_REASONS[answer.stop],
        "stop_sequence": answer.sequence,
        "usage": write_usage(usage),
    }


def message_id(ident: str) -> str:
    """The id with the prefix `msg_` of Anthropic Messages, added if it is missing."""
    return ident if ident.startswith("msg_") else f"msg_{ident}"
