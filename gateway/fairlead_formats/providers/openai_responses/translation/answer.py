"""Conversion of whole answers between OpenAI Responses and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import SERVER_TOOL
from fairlead_formats.messages.call import InvalidCall, ModelCall, is_truncated, items, member, text_of
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
)
from fairlead_formats.neutral.members import kind_of_part
from fairlead_formats.providers.openai_responses.items import (
    CALL,
    CUSTOM_CALL,
    FOREIGN_REASONING,
    new_response_id,
    nonce_of,
)
from fairlead_formats.providers.openai_responses.translation.messages import FORMAT
from fairlead_formats.wire.protocol import TranslationLosses

_STOP_BY_REASON: Final[Mapping[str, StopReason]] = {"max_output_tokens": "length", "content_filter": "filter"}
_REASON_BY_STOP: Final[Mapping[StopReason, str]] = {
    "length": "max_output_tokens",
    "context": "max_output_tokens",
    "filter": "content_filter",
}


def read_stop(response: object, *, has_calls: bool, has_refusal: bool) -> StopReason:
    """The neutral stop reason of a response, from its status and content."""
    if member(response, "status") == "incomplete":
        reason = text_of(member(member(response, "incomplete_details"), "reason"))
        return _STOP_BY_REASON.get(reason, "pause")
    return stop_with_calls("refusal" if has_refusal else "end", has_calls)


def write_state(stop: StopReason, *, has_refusal: bool) -> dict[str, Any]:
    """Status and details of a response. A refusal without text is reported as `content_filter`."""
    reason = "content_filter" if stop == "refusal" and not has_refusal else _REASON_BY_STOP.get(stop)
    if reason is None:
        return {"status": "completed", "incomplete_details": None}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def read_answer(body: Mapping[str, Any], losses: TranslationLosses) -> TranslatedAnswer:
    """Read a whole answer."""
    parts = tuple(_parts(items(body.get("output")), losses, truncated=is_truncated(body)))
    has_calls = any(isinstance(part, CallPart) for part in parts)
    has_refusal = any(isinstance(part, RefusalPart) for part in parts)
    created = body.get("created_at")
    return TranslatedAnswer(
        text_of(body.get("id")),
        text_of(body.get("model")),
        int(created) if isinstance(created, (int, float)) else 0,
        parts,
        read_stop(body, has_calls=has_calls, has_refusal=has_refusal),
    )


def _parts(output: Sequence[object], losses: TranslationLosses, *, truncated: bool) -> Iterator[AnswerPart]:
    has_text = False
    for item in output:
        kind = kind_of_part(item)
        if kind == "message":
            if has_text:
                yield RoundBorder()
            has_text = True
            yield from _content_parts(items(member(item, "content")), losses)
        elif kind == "reasoning":
            texts = [text_of(member(part, "text")) for part in items(member(item, "summary", "content"))]
            yield from [ThinkingPart("\n\n".join(texts))] if any(texts) else []
        elif calls := FORMAT.parse_calls(item, truncated=truncated and item is output[-1]):
            yield from (CallPart(call) for call in calls)
        elif any(part.what == SERVER_TOOL for part in FORMAT.parts(item)):
            losses.add("provider_tools")


def _content_parts(content: Sequence[object], losses: TranslationLosses) -> Iterator[AnswerPart]:
    for part in content:
        if member(part, "annotations"):
            losses.add("citations")
        if kind_of_part(part) == "refusal":
            yield RefusalPart(text_of(member(part, "refusal")))
        elif text := text_of(member(part, "text")):
            yield TextPart(text)


def read_usage(usage: Mapping[str, Any]) -> ReportedUsage:
    """Read token usage."""
    input_details, output_details = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return ReportedUsage(
        number(usage.get("input_tokens")),
        number(member(input_details, "cached_tokens")),
        number(member(input_details, "cache_write_tokens")),
        number(usage.get("output_tokens")),
        number(member(output_details, "reasoning_tokens")),
    )


def write_usage(usage: ReportedUsage) -> dict[str, Any] | None:
    """Write token usage, with the details that the SDK's types require; None if the provider reported no counts."""
    if usage.total is None:
        return None
    return {
        "input_tokens": usage.input or 0,
        "input_tokens_details": {"cached_tokens": usage.cached or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": usage.output or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.total,
    }


def response_head(model: str, created: int, request: NeutralRequest) -> dict[str, Any]:
    """A response without output and status, with the members that responses repeat from their request. Its id cannot be
    guessed, because an id is all that a client needs to continue a stored response.
    """
    return {
        "id": new_response_id(),
        "object": "response",
        "created_at": created,
        "model": model,
        "error": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "store": True,
        **request.echo,
        "previous_response_id": None,
    }


def item_id(kind: str, response: str, index: int) -> str:
    """The id of an output item, which names its response (`response_id_of`)."""
    prefix = FOREIGN_REASONING if kind == "rs" else f"{kind}_"
    return f"{prefix}{nonce_of(response)}_{index}"


def message_item(ident: str, content: Sequence[Mapping[str, Any]], status: str = "completed") -> dict[str, Any]:
    """A message item."""
    return {"type": "message", "id": ident, "role": "assistant", "status": status, "content": [*content]}


def text_content(text: str) -> dict[str, Any]:
    """A text part of a message item."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def reasoning_item(ident: str, text: str) -> dict[str, Any]:
    """A reasoning item that has only a summary, no encrypted content."""
    return {"type": "reasoning", "id": ident, "summary": [{"type": "summary_text", "text": text}] if text else []}


def write_answer(
    answer: TranslatedAnswer, usage: ReportedUsage, request: NeutralRequest, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a whole answer."""
    head = response_head(answer.model, answer.created, request)
    output = _output(answer, head["id"])
    has_refusal = any(isinstance(part, RefusalPart) for part in answer.parts)
    return {**head, **write_state(answer.stop, has_refusal=has_refusal), "output": output, "usage": write_usage(usage)}


def _write_call(call: ModelCall, response: str, index: int, *, truncated: bool) -> dict[str, Any]:
    """The item of a call. Arguments that are not a JSON object are written as the model wrote them."""
    if isinstance(call.arguments, InvalidCall):
        item = {"type": CALL, "call_id": call.id, "name": call.wire_name, "arguments": call.arguments.text}
    else:
        item = FORMAT.write_calls([call])[0]
    prefix = "ctc" if item["type"] == CUSTOM_CALL else "fc"
    return {**item, "id": item_id(prefix, response, index), "status": "incomplete" if truncated else "completed"}


def _output(answer: TranslatedAnswer, response: str) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    in_message = False
    for part in answer.parts:
        index = len(output)
        if isinstance(part, CallPart):
            is_cut_off = answer.ends_in_call and part is answer.parts[-1]
            output.append(_write_call(part.call, response, index, truncated=is_cut_off))
        elif isinstance(part, ThinkingPart):
            output.append(reasoning_item(item_id("rs", response, index), part.text))
        elif isinstance(part, (TextPart, RefusalPart)):
            refusal = {"type": "refusal", "refusal": part.text}
            content = text_content(part.text) if isinstance(part, TextPart) else refusal
            if in_message:
                output[-1]["content"].append(content)
            else:
                output.append(message_item(item_id("msg", response, index), [content]))
        in_message = isinstance(part, (TextPart, RefusalPart))
    return output
