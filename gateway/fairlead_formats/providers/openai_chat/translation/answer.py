"""Conversion of whole answers between Chat Completions and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.messages.call import InvalidCall, ModelCall, is_truncated, items, member, text_of
from fairlead_formats.neutral.answers import (
    AnswerPart,
    ReportedUsage,
    StopReason,
    TranslatedAnswer,
    number,
    part_texts,
    refusal_text,
    thinking_text,
)
from fairlead_formats.neutral.conversation import (
    CallPart,
    NeutralRequest,
    RefusalPart,
    TextPart,
    ThinkingPart,
)
from fairlead_formats.providers.openai_chat.translation.messages import FORMAT
from fairlead_formats.wire.protocol import TranslationLosses

REASONING_MEMBERS: Final = ("reasoning_content", "reasoning")
"""Members in which compatible servers send reasoning. All are read; the first is written."""
_NEUTRAL_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "filter",
    "max_tokens": "length",
    "model_length": "context",
    "insufficient_system_resource": "pause",
    "abort": "pause",
    "error": "pause",
}
_STOP_REASONS: Final[Mapping[StopReason, str]] = {
    "end": "stop",
    "sequence": "stop",
    "calls": "tool_calls",
    "length": "length",
    "context": "length",
    "filter": "content_filter",
    "refusal": "stop",
    "pause": "stop",
    "malformed": "stop",
}


def read_stop(reason: object, *, has_refusal: bool) -> StopReason:
    """The neutral stop reason for a choice's `finish_reason`. `has_refusal`: whether its message has a refusal."""
    stop = _NEUTRAL_STOP_REASONS.get(text_of(reason), "end")
    return "refusal" if has_refusal and stop == "end" else stop


def write_stop(stop: StopReason, *, has_refusal: bool) -> str:
    """The `finish_reason` of a choice. `has_refusal`: whether its message has a refusal."""
    return "content_filter" if stop == "refusal" and not has_refusal else _STOP_REASONS[stop]


def read_answer(body: Mapping[str, Any], losses: TranslationLosses) -> TranslatedAnswer:
    """Read a whole answer."""
    choice: object = next(iter(items(body.get("choices"))), None)
    message = member(choice, "message")
    parts = tuple(_parts(message, losses, truncated=is_truncated(choice)))
    has_refusal = any(isinstance(part, RefusalPart) for part in parts)
    stop = read_stop(member(choice, "finish_reason"), has_refusal=has_refusal)
    if member(choice, "logprobs") is not None:
        losses.add("logprobs")
    return TranslatedAnswer(
        text_of(body.get("id")), text_of(body.get("model")), number(body.get("created")) or 0, parts, stop
    )


def _parts(message: object, losses: TranslationLosses, *, truncated: bool) -> Iterator[AnswerPart]:
    reasoning = member(message, *REASONING_MEMBERS)
    if isinstance(reasoning, str) and reasoning:
        yield ThinkingPart(reasoning)
    content = member(message, "content")
    text = content if isinstance(content, str) else "".join(part.text for part in FORMAT.parts({"content": content}))
    if text:
        yield TextPart(text)
    refusal = member(message, "refusal")
    if isinstance(refusal, str) and refusal:
        yield RefusalPart(refusal)
    if member(message, "annotations"):
        losses.add("citations")
    if member(message, "audio") is not None:
        losses.add("audio")
    yield from (CallPart(call) for call in FORMAT.parse_calls(message or {}, truncated=truncated))


def read_usage(usage: Mapping[str, Any]) -> ReportedUsage:
    """Read token usage."""
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return ReportedUsage(
        number(usage.get("prompt_tokens")),
        number(member(prompt, "cached_tokens")),
        number(member(prompt, "cache_write_tokens")),
        number(usage.get("completion_tokens")),
        number(member(completion, "reasoning_tokens")),
    )


def write_usage(usage: ReportedUsage) -> dict[str, Any] | None:
    """Write token usage; None if the provider reported no counts."""
    if usage.total is None:
        return None
    members: dict[str, Any] = {
        "prompt_tokens": usage.input or 0,
        "completion_tokens": usage.output or 0,
        "total_tokens": usage.total,
    }
    cache = {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write}
    cache = {name: value for name, value in cache.items() if value is not None}
    if cache:
        members["prompt_tokens_details"] = cache
    if usage.reasoning is not None:
        members["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return members


def write_answer(
    answer: TranslatedAnswer, usage: ReportedUsage, request: NeutralRequest, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a whole answer."""
    calls = [part.call for part in answer.parts if isinstance(part, CallPart)]
    text, refusal, reasoning = part_texts(answer.parts), refusal_text(answer.parts), thinking_text(answer.parts)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": refusal or None}
    if calls:
        message["tool_calls"] = [_write_call(call) for call in calls]
    if reasoning:
        message[REASONING_MEMBERS[0]] = reasoning
    reason = write_stop(answer.stop, has_refusal=bool(refusal))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    body = {
        "id": chat_id(answer.id),
        "object": "chat.completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [choice],
    }
    usage_members = write_usage(usage)
    return body if usage_members is None else {**body, "usage": usage_members}


def _write_call(call: ModelCall) -> dict[str, Any]:
    """An entry of `tool_calls`. Arguments that are not a JSON object are written as the model wrote them."""
    if not isinstance(call.arguments, InvalidCall):
        return dict(FORMAT.write_calls([call])[0]["tool_calls"][0])
    function = {"name": call.wire_name, "arguments": call.arguments.text}
    return {"id": call.id, "type": "function", "function": function}


def chat_id(ident: str) -> str:
    """The id with the prefix of Chat Completions, added if it is missing."""
    return ident if ident.startswith("chatcmpl-") else f"chatcmpl-{ident}"
