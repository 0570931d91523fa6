"""Splits a whole answer of OpenAI Responses into stream events, for providers that ignore `stream`. Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import CALL, CUSTOM_CALL, REASONING, encode, members_of
from fairlead_formats.wire.protocol import BadAnswer

_TEXT_MEMBERS: Final[Mapping[str, str]] = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}
"""Maps types of content parts to the member with their text. The names of the parts' events contain the type."""
_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    CALL: ("function_call_arguments", "arguments"),
    CUSTOM_CALL: ("custom_tool_call_input", "input"),
}
"""Maps types of call items to the middle part of their event types, and to the member with the call's input."""
_FINAL_STATUSES: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})


class _Item(msgspec.Struct):
    type: str
    id: str | None = None
    name: str | None = None
    content: list[dict[str, Any]] | None = None
    summary: list[dict[str, Any]] | None = None
    arguments: str = ""
    input: Any = ""


class _Response(msgspec.Struct):
    output: list[Raw]
    status: str | None = None


_decode_response: Final = msgspec.json.Decoder(_Response).decode
_decode_item: Final = msgspec.json.Decoder(_Item).decode
Events = Iterator[tuple[str, dict[str, Any]]]


def whole_events(body: bytes) -> list[bytes]:
    """Data of the events from `response.created` to the end. Raises BadAnswer."""
    try:
        members, response = members_of(body), _decode_response(body)
        items = [(index, raw, _decode_item(raw)) for index, raw in enumerate(response.output)]
        item_events = [
            (kind, {"output_index": index, **event}) for index, raw, item in items for kind, event in _events(raw, item)
        ]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the provider's answer is not a response: {error}") from error
    status = response.status or "completed"
    if status not in _FINAL_STATUSES:
        raise BadAnswer(f"the provider's response is not complete: its status is {status[:64]!r}")
    start_response: dict[str, Any] = {"response": {**members, "status": "in_progress", "output": [], "usage": None}}
    events = [("response.created", start_response), ("response.in_progress", start_response), *item_events]
    events.append((f"response.{status}", {"response": Raw(body)}))
    return [encode({"type": kind, "sequence_number": number, **event}) for number, (kind, event) in enumerate(events)]


def _events(raw: Raw, item: _Item) -> Events:
    """Type and members of the events of one item."""
    start_item: dict[str, Any] = dict(members_of(raw))
    content_events: list[tuple[str, dict[str, Any]]] = []
    position = {"item_id": item.id}
    if item.type in ("message", REASONING) and item.content is not None:
        start_item["content"] = []
        content_events += [
            event for index, part in enumerate(item.content) for event in _part_events(position, index, part)
        ]
    if item.type == REASONING:
        start_item["summary"] = []
        summary = item.summary or []
        content_events += [
            event for index, part in enumerate(summary) for event in _summary_events(position, index, part)
        ]
    if item.type in _CALLS:
        name, member = _CALLS[item.type]
        text = item.arguments if item.type == CALL else item.input
        start_item[member] = ""
        content_events.append((f"response.{name}.delta", {**position, "delta": text}))
        name_member = {"name": item.name} if item.type == CALL else {}
        content_events.append((f"response.{name}.done", {**position, **name_member, member: text}))
    if "status" in start_item:
        start_item["status"] = "in_progress"
    yield "response.output_item.added", {"item": start_item}
    yield from content_events
    yield "response.output_item.done", {"item": raw}


def _part_events(item_id: Mapping[str, Any], index: int, part: Mapping[str, Any]) -> Events:
    """Events of one part of a message, or of reasoning that the model did not encrypt."""
    position = {**item_id, "content_index": index}
    member = _TEXT_MEMBERS.get(str(part.get("type")))
    kind = f"response.{part.get('type')}"
    yield "response.content_part.added", {**position, "part": part if member is None else {**part, member: ""}}
    if member is not None:
        logprobs = {"logprobs": part.get("logprobs") or []} if kind == "response.output_text" else {}
        yield f"{kind}.delta", {**position, "delta": part.get(member, ""), **logprobs}
        yield f"{kind}.done", {**position, member: part.get(member, ""), **logprobs}
    yield "response.content_part.done", {**position, "part": part}


def _summary_events(item_id: Mapping[str, Any], index: int, part: Mapping[str, Any]) -> Events:
    position, text = {**item_id, "summary_index": index}, part.get("text", "")
    yield "response.reasoning_summary_part.added", {**position, "part": {**part, "text": ""}}
    yield "response.reasoning_summary_text.delta", {**position, "delta": text}
    yield "response.reasoning_summary_text.done", {**position, "text": text}
    yield "response.reasoning_summary_part.done", {**position, "part": part}
