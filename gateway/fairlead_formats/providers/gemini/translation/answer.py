"""Conversion of whole answers between Gemini's API and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import SERVER_TOOL
from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.answers import (
    AnswerPart,
    ReportedUsage,
    RoundBorder,
    StopReason,
    TranslatedAnswer,
    number,
    stop_with_calls,
)
from fairlead_formats.neutral.conversation import (
    CallPart,
    NeutralRequest,
    RefusalPart,
    TextPart,
    ThinkingPart,
    valid_call,
)
from fairlead_formats.providers.gemini.carried_ids import sign_parts
from fairlead_formats.providers.gemini.translation.messages import FORMAT
from fairlead_formats.wire.protocol import TranslationLosses

_NEUTRAL_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "filter",
    "RECITATION": "filter",
    "BLOCKLIST": "filter",
    "PROHIBITED_CONTENT": "filter",
    "SPII": "filter",
    "IMAGE_SAFETY": "filter",
    "MODEL_ARMOR": "filter",
    "LANGUAGE": "filter",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "TOO_MANY_TOOL_CALLS": "malformed",
    "MALFORMED_RESPONSE": "malformed",
    "CONTINUATION": "pause",
}
STOP_REASONS: Final[Mapping[StopReason, str]] = {
    "end": "STOP",
    "sequence": "STOP",
    "calls": "STOP",
    "length": "MAX_TOKENS",
    "context": "MAX_TOKENS",
    "filter": "SAFETY",
    "refusal": "SAFETY",
    "pause": "OTHER",
    "malformed": "MALFORMED_FUNCTION_CALL",
}


def read_stop(reason: object, *, has_calls: bool) -> StopReason:
    """The neutral stop reason for a finish reason. Gemini reports `STOP` also for an answer with calls."""
    return stop_with_calls(_NEUTRAL_STOP_REASONS.get(text_of(reason), "end"), has_calls)


def is_blocked(body: Mapping[str, Any]) -> bool:
    """Whether the prompt was refused, in which case there is no candidate."""
    feedback = member(body, "promptFeedback", "prompt_feedback")
    return member(feedback, "blockReason", "block_reason") is not None


def first_candidate(body: Mapping[str, Any]) -> object:
    """The first candidate, which is the only one that the gateway reads; None without a candidate."""
    return next(iter(items(body.get("candidates"))), None)


def read_parts(parts: Sequence[object], losses: TranslationLosses) -> Iterator[AnswerPart]:
    """The parts of a candidate, whole or in one event of a stream."""
    calls = iter(FORMAT.parse_calls(list(parts)))
    for entry, part in zip(parts, FORMAT.parts(list(parts)), strict=False):
        if part.draft is not None:
            yield CallPart(next(calls))
        elif member(entry, "thought") is True:
            yield from [ThinkingPart(text)] if (text := text_of(member(entry, "text"))) else []
        elif part.what == SERVER_TOOL:
            losses.add("provider_tools")
        elif part.text:
            yield TextPart(part.text)
        elif member(entry, "inlineData", "inline_data", "fileData") is not None:
            losses.add("answer_media")


def read_answer(body: Mapping[str, Any], losses: TranslationLosses) -> TranslatedAnswer:
    """Read a whole answer."""
    candidate = first_candidate(body)
    parts = tuple(read_parts(items(member(member(candidate, "content"), "parts")), losses))
    has_calls = any(isinstance(part, CallPart) for part in parts)
    stop = read_stop(member(candidate, "finishReason", "finish_reason"), has_calls=has_calls)
    if candidate is None and is_blocked(body):
        stop = "filter"
    if member(candidate, "groundingMetadata", "citationMetadata") is not None:
        losses.add("citations")
    return TranslatedAnswer(text_of(body.get("responseId")), text_of(body.get("modelVersion")), 0, parts, stop)


def read_usage(usage: Mapping[str, Any]) -> ReportedUsage:
    """Read token usage. `candidatesTokenCount` excludes thoughts, so these are added to the neutral output."""
    prompt, tools = number(usage.get("promptTokenCount")), number(usage.get("toolUsePromptTokenCount"))
    answer, thoughts = number(usage.get("candidatesTokenCount")), number(usage.get("thoughtsTokenCount"))
    return ReportedUsage(
        None if prompt is None else prompt + (tools or 0),
        number(usage.get("cachedContentTokenCount")),
        None,
        None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        thoughts,
    )


def write_usage(usage: ReportedUsage) -> dict[str, Any] | None:
    """Write token usage; None if the provider reported no counts."""
    if usage.total is None:
        return None
    answer = max((usage.output or 0) - (usage.reasoning or 0), 0)
    members = {"promptTokenCount": usage.input or 0, "candidatesTokenCount": answer, "totalTokenCount": usage.total}
    details = {"cachedContentTokenCount": usage.cached, "thoughtsTokenCount": usage.reasoning}
    return members | {name: value for name, value in details.items() if value is not None}


def write_answer(
    answer: TranslatedAnswer, usage: ReportedUsage, request: NeutralRequest, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a whole answer."""
    parts: list[dict[str, Any]] = []
    needs_separator = False
    for part in answer.parts:
        if isinstance(part, CallPart):
            parts += sign_parts(FORMAT.write_calls([valid_call(part.call, losses)])[0]["parts"])
        elif isinstance(part, ThinkingPart):
            parts.append({"text": part.text, "thought": True})
        elif isinstance(part, (TextPart, RefusalPart)):
            parts.append({"text": f"\n\n{part.text}" if needs_separator else part.text})
            needs_separator = False
        elif isinstance(part, RoundBorder):
            needs_separator = any("text" in written_part and not written_part.get("thought") for written_part in parts)
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": STOP_REASONS[answer.stop], "index": 0}
    body = {"responseId": answer.id, "modelVersion": answer.model, "candidates": [candidate]}
    usage_metadata = write_usage(usage)
    return body if usage_metadata is None else {**body, "usageMetadata": usage_metadata}
