"""Tools, calls and results of OpenAI Responses and OpenAI Realtime, where calls and results are items.

Pure module. A call is an item `{type: function_call, call_id, name, arguments: JSON text}`, its result
`{type: function_call_output, call_id, output}`. In Responses the output is text, or a list of `input_text`,
`input_image` and `input_file`. In Realtime the output is text, items are sent as events (`conversation.item.create`),
images follow in a user item, and a final `response.create` makes the model continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import AnswerPart, Answers, MessageFormat, Part, with_paths
from fairlead_formats.messages.call import Carry, ModelCall, freeform_text, items, member, name_for, text_of
from fairlead_formats.messages.content import (
    PDF,
    WEB_IMAGES,
    Body,
    LossReport,
    Media,
    Text,
    accept_types,
    join_texts,
    json_text,
    mark_error,
    media,
    report_structured,
)
from fairlead_formats.messages.streams import Assembler
from fairlead_formats.names import Names
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.providers.openai_chat.tools import lax_targets, openai_format, read_flat, targets, write_function
from fairlead_formats.providers.openai_responses.assembler import ResponsesAssembler
from fairlead_formats.providers.openai_responses.definition_rules import realtime_faults, responses_faults
from fairlead_formats.providers.openai_responses.items import CALL, CUSTOM_CALL, OUTPUT
from fairlead_formats.providers.openai_responses.message_items import CUSTOM_OUTPUT, answer_of, entries, parts_of_item
from fairlead_formats.tool_format import Action, JsonObject
from fairlead_formats.tools.definitions import Envelope, Parts
from fairlead_formats.tools.envelopes import rename_tool, tools_of, tools_request

OPENAI_RESPONSES: Final = "openai-responses"
_ITEM_CREATE: Final = "conversation.item.create"


def _write_responses(parts: Parts) -> JsonObject:
    """A function with the member `strict` in any case: if it is missing, the API tries strict mode."""
    out = {"type": "function", **write_function(parts, strict=False), "strict": bool(parts.strict)}
    if parts.output is not None:
        out["output_schema"] = parts.output
    return out


def _write_realtime(parts: Parts) -> JsonObject:
    return {"type": "function", **write_function(parts, strict=False)}


def _unpack_responses(payload: Any) -> list[Any]:
    """The tools of a request, with the tools of each `namespace` before the namespace itself."""
    out: list[Any] = []
    for tool in tools_of(payload):
        if isinstance(tool, dict) and tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            out += tool["tools"]
        out.append(tool)
    return out


def _unpack_realtime(payload: Any) -> list[Any]:
    if isinstance(payload, dict) and isinstance(payload.get("session"), dict):
        payload = payload["session"]
    return tools_of(payload)


class ResponsesMessages(MessageFormat):
    """Reads and writes calls and results as items of OpenAI Responses."""

    holds_freeform = True

    def parts(self, message: object) -> Iterator[Part]:
        for path, item in entries(message):
            yield from parts_of_item(item, path)

    def assembler(self, names: Names | None = None) -> Assembler:
        return ResponsesAssembler(names)

    def request_messages(self, message: object) -> list[JsonObject]:
        return [item for _, item in entries(message) if isinstance(item, dict)]

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        return [*_text_message(text), *(call_item(call, names) for call in calls if call.valid)]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        accept = accept_types(WEB_IMAGES if carry.images else (), (PDF,) if carry.documents else ())
        result_items = []
        for call, body, report in answers.bodies(accept):
            output = _parts(body, report) if media(body.blocks) else join_texts(body, report)
            kind = OUTPUT if freeform_text(call) is None else CUSTOM_OUTPUT
            result_items.append({"type": kind, "call_id": call.id, "output": output})
        return result_items

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        for path, entry in with_paths("", items(messages)) or [("", messages)]:
            yield answer_of(entry, path)


class RealtimeMessages(MessageFormat):
    """Reads calls in OpenAI Realtime's server events, and writes results as client events."""

    def parts(self, message: object) -> Iterable[Part]:
        """The parts of events, or of a list of events. A part that several events contain is returned once."""
        parts: dict[object, Part] = {}
        for index, (path, item) in enumerate(entries(message)):
            ident = text_of(member(item, "id")) or index
            for number, part in enumerate(parts_of_item(item, path)):
                draft = part.draft
                if draft is None:
                    parts.setdefault((ident, number, part.what), part)
                    continue
                key = text_of(draft.id) or index
                earlier_draft = parts[key].draft if key in parts else None
                if earlier_draft is None or earlier_draft.name is None:
                    parts[key] = part
                elif draft.arguments != earlier_draft.arguments or draft.name not in (None, earlier_draft.name):
                    parts[key, index] = part
        return parts.values()

    def assembler(self, names: Names | None = None) -> Assembler:
        return ResponsesAssembler(names)

    def request_messages(self, message: object) -> list[JsonObject]:
        items_by_id: dict[object, JsonObject] = {}
        for index, (_, item) in enumerate(entries(message)):
            if isinstance(item, dict) and (item.get("type") == "message" or any(parts_of_item(item, ""))):
                items_by_id[text_of(item.get("id")) or text_of(item.get("call_id")) or index] = item
        return [{"type": _ITEM_CREATE, "item": item} for item in items_by_id.values()]

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        output_items = [*_text_message(text), *(_function_item(call, names) for call in calls if call.valid)]
        return [{"type": _ITEM_CREATE, "item": item} for item in output_items]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        accept = accept_types(("image/png", "image/jpeg") if carry.images else ())
        events: list[JsonObject] = []
        image_parts: list[JsonObject] = []
        for call, body, report in answers.bodies(accept):
            item = {"type": OUTPUT, "call_id": call.id, "output": join_texts(body, report)}
            events.append({"type": _ITEM_CREATE, "item": item})
            for image in media(body.blocks):
                report.add(image.path, image.what, Action.REWRITTEN, "moved into an item after the results")
                image_parts.append(_part(image))
        if image_parts:
            events.append({"type": _ITEM_CREATE, "item": {"type": "message", "role": "user", "content": image_parts}})
        if events and not answers.pending:
            events.append({"type": "response.create"})
        return events

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        for path, event in with_paths("", messages) if isinstance(messages, list) else [("", messages)]:
            if member(event, "type") != "response.create":
                yield answer_of(member(event, "item") or event, path)


def call_item(call: ModelCall, names: Names | None) -> JsonObject:
    """The item of a call."""
    text = freeform_text(call)
    if text is not None:
        return {"type": CUSTOM_CALL, "call_id": call.id, "name": name_for(call, names), "input": text}
    return _function_item(call, names)


def _text_message(text: str) -> list[JsonObject]:
    content = [{"type": "output_text", "text": text}]
    return [{"type": "message", "role": "assistant", "content": content}] if text else []


def _function_item(call: ModelCall, names: Names | None) -> JsonObject:
    return {"type": CALL, "call_id": call.id, "name": name_for(call, names), "arguments": json_text(call.arguments)}


def _parts(body: Body, report: LossReport) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in body.blocks:
        parts.append(_part(block))
    if body.structured is not None and not body.structured_in_text:
        parts.append({"type": "input_text", "text": json_text(body.structured)})
    report_structured(body, report)
    if body.is_error:
        first_text = next((part for part in parts if part["type"] == "input_text"), None)
        if first_text is None:
            parts.insert(0, {"type": "input_text", "text": mark_error("", body, report)})
        else:
            first_text["text"] = mark_error(first_text["text"], body, report)
    return parts


def _part(block: Text | Media) -> JsonObject:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    address = f"data:{block.mime};base64,{block.data}"
    if block.mime == PDF:
        return {"type": "input_file", "filename": block.uri.rsplit("/", 1)[-1] or "file.pdf", "file_data": address}
    return {"type": "input_image", "image_url": address}


FORMATS: Final = (
    ProviderFormat(
        tools=openai_format(
            OPENAI_RESPONSES,
            "OpenAI Responses",
            ("responses",),
            Envelope(_write_responses, rename_tool, read_flat, tools_request, _unpack_responses, output=True),
            targets,
            responses_faults,
        ),
        messages=ResponsesMessages(),
    ),
    ProviderFormat(
        tools=openai_format(
            "openai-realtime",
            "OpenAI Realtime",
            ("realtime",),
            Envelope(
                _write_realtime,
                rename_tool,
                read_flat,
                lambda tools: {"session": tools_request(tools)},
                _unpack_realtime,
            ),
            lax_targets,
            realtime_faults,
        ),
        messages=RealtimeMessages(),
    ),
)
