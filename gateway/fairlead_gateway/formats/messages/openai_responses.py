"""OpenAI Responses and OpenAI Realtime: calls and results are items of their own.

Pure module. A call is an item `{type: function_call, call_id, name, arguments: JSON text}`, its result
`{type: function_call_output, call_id, output}`. In Responses the output is text, or a list of `input_text`,
`input_image` and `input_file`. In Realtime it is text, items travel in events (`conversation.item.create`), images
follow as an item of the user's, and `response.create` at the end asks the model to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead_gateway.formats import registry
from fairlead_gateway.formats.format import Action, JsonObject
from fairlead_gateway.formats.messages.base import Answers, MessageFormat
from fairlead_gateway.formats.messages.call import Carry, ToolCall, ToolResult, name_for
from fairlead_gateway.formats.messages.content import (
    PDF,
    WEB_IMAGES,
    Body,
    Media,
    Report,
    Text,
    accepting,
    json_text,
    marked,
    media,
    one_text,
    report_structured,
)
from fairlead_gateway.formats.messages.drafts import Draft, items, member, text_of
from fairlead_gateway.formats.messages.reading import blocks_of_parts, result_of
from fairlead_gateway.formats.names import Names

CALL: Final = "function_call"
OUTPUT: Final = "function_call_output"
ARGUMENTS_DONE: Final = "response.function_call_arguments.done"
_ITEM_CREATE: Final = "conversation.item.create"


class ResponsesMessages(MessageFormat):
    """OpenAI Responses."""

    name = registry.OPENAI_RESPONSES

    def drafts(self, message: object) -> Iterable[Draft]:
        return _drafts(message)

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None) -> list[JsonObject]:
        return [call_item(call, names) for call in calls if call.valid]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        accept = accepting(WEB_IMAGES if carry.images else (), (PDF,) if carry.documents else ())
        written = []
        for call, body, report in answers.bodies(accept):
            output = _parts(body, report) if media(body.blocks) else one_text(body, report)
            written.append({"type": OUTPUT, "call_id": call.id, "output": output})
        return written

    def parse_results(self, messages: object) -> list[ToolResult]:
        return _results(messages)


class RealtimeMessages(MessageFormat):
    """OpenAI Realtime: events of the server in, events of the client out."""

    name = registry.OPENAI_REALTIME

    def drafts(self, message: object) -> Iterable[Draft]:
        """Also from a list of events: a call that several of them hold counts once."""
        drafts: dict[object, Draft] = {}
        for place, draft in enumerate(_drafts(message)):
            key = text_of(draft.id) or place
            known = drafts.get(key)
            if known is None or known.name is None:
                drafts[key] = draft
            elif draft.arguments != known.arguments or draft.name not in (None, known.name):
                drafts[key, place] = draft
        return drafts.values()

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None) -> list[JsonObject]:
        return [{"type": _ITEM_CREATE, "item": call_item(call, names)} for call in calls if call.valid]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        accept = accepting(("image/png", "image/jpeg") if carry.images else ())
        events: list[JsonObject] = []
        behind: list[JsonObject] = []
        for call, body, report in answers.bodies(accept):
            item = {"type": OUTPUT, "call_id": call.id, "output": one_text(body, report)}
            events.append({"type": _ITEM_CREATE, "item": item})
            for image in media(body.blocks):
                report.add(image.path, image.what, Action.REWRITTEN, "moved into an item behind the results")
                behind.append(_part(image))
        if behind:
            events.append({"type": _ITEM_CREATE, "item": {"type": "message", "role": "user", "content": behind}})
        if events and not answers.pending:
            events.append({"type": "response.create"})
        return events

    def parse_results(self, messages: object) -> list[ToolResult]:
        events = messages if isinstance(messages, list) else [messages]
        return _results([member(event, "item") or event for event in events])


def call_item(call: ToolCall, names: Names | None) -> JsonObject:
    """A call as an item."""
    return {"type": CALL, "call_id": call.id, "name": name_for(call, names), "arguments": json_text(call.arguments)}


def _drafts(message: object) -> Iterator[Draft]:
    """From a response, an event, an item, or a list of items or events."""
    if isinstance(message, list):
        for entry in message:
            yield from _of_entry(entry)
        return
    yield from _of_entry(message)


def _of_entry(entry: object) -> Iterator[Draft]:
    response = member(entry, "response") or entry
    output = member(response, "output")
    if isinstance(output, list) and member(entry, "type") != OUTPUT:
        for item in output:
            yield from _of_item(item)
        return
    yield from _of_item(member(entry, "item") or entry)


def _of_item(item: object) -> Iterator[Draft]:
    if member(item, "type") in (CALL, ARGUMENTS_DONE) and member(item, "status") != "in_progress":
        yield Draft(member(item, "call_id", "id"), member(item, "name"), member(item, "arguments"))


def _parts(body: Body, report: Report) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in body.blocks:
        parts.append(_part(block))
    if body.structured is not None and not body.structured_said:
        parts.append({"type": "input_text", "text": json_text(body.structured)})
    report_structured(body, report)
    if body.is_error:
        first = next((part for part in parts if part["type"] == "input_text"), None)
        if first is None:
            parts.insert(0, {"type": "input_text", "text": marked("", body, report)})
        else:
            first["text"] = marked(first["text"], body, report)
    return parts


def _part(block: Text | Media) -> JsonObject:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    address = f"data:{block.mime};base64,{block.data}"
    if block.mime == PDF:
        return {"type": "input_file", "filename": block.uri.rsplit("/", 1)[-1] or "file.pdf", "file_data": address}
    return {"type": "input_image", "image_url": address}


def _results(messages: object) -> list[ToolResult]:
    found = []
    entry: Any
    for entry in items(messages) or [messages]:
        if member(entry, "type") == OUTPUT:
            result = result_of(blocks_of_parts(entry.get("output")), is_error=False)
            found.append(ToolResult(text_of(entry.get("call_id")), "", result))
    return found
