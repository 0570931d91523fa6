"""OpenAI Chat Completions (and Azure OpenAI, and everything compatible), with the old `function_call`.

Pure module. A call is `message.tool_calls[] {id, type: function, function: {name, arguments: JSON text}}`, its result
a message `{role: tool, tool_call_id, content: text}`; in the old form `message.function_call {name, arguments}` and
`{role: function, name, content}`. Results hold text only: images and audio follow in a message of the user's.
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
    Accept,
    Media,
    accepting,
    json_text,
    media,
    one_text,
)
from fairlead_gateway.formats.messages.drafts import Draft, items, member, text_of
from fairlead_gateway.formats.messages.reading import blocks_of_parts, result_of
from fairlead_gateway.formats.names import Names

FUNCTION_CALL: Final = "function_call"
_AUDIO: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


class ChatMessages(MessageFormat):
    """Both forms are read; `function_call` says which one `write_calls` writes."""

    def __init__(self, name: str = registry.OPENAI_CHAT, *, function_call: bool = False) -> None:
        self.name = name
        self._function_call = function_call

    def drafts(self, message: object) -> Iterator[Draft]:
        """From a response, a choice, a message or a list of calls. Of several choices only the first is acted on."""
        if isinstance(message, list):
            for entry in message:
                yield _draft(entry)
            return
        choices = member(message, "choices")
        if isinstance(choices, list):
            message = choices[0] if choices else None
        message = member(message, "message") or message
        calls = member(message, "tool_calls")
        if calls is not None:
            for entry in items(calls):
                if member(entry, "type") in (None, "function"):
                    yield _draft(entry)
            return
        old = member(message, FUNCTION_CALL)
        if old is not None:
            name, arguments = member(old, "name"), member(old, "arguments")
            yield Draft(None, name, arguments, kind=FUNCTION_CALL, problem=_no_object(old))

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None) -> list[JsonObject]:
        written = [(call, _function(call, names)) for call in calls if call.valid]
        if self._function_call:
            return [{"role": "assistant", "content": None, FUNCTION_CALL: function} for _, function in written]
        entries = [{"id": call.id, "type": "function", "function": function} for call, function in written]
        return [{"role": "assistant", "content": None, "tool_calls": entries}] if entries else []

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        messages, behind = [], []
        for call, body, report in answers.bodies(_accept(carry)):
            text = one_text(body, report)
            moved = media(body.blocks)
            if moved:
                note = f"[{len(moved)} file(s) of this result follow in the next message]"
                text = f"{text}\n\n{note}" if text else note
                behind.append({"type": "text", "text": f"Files that {call.wire_name} ({call.id}) returned:"})
                behind.extend(_user_part(item) for item in moved)
            for item in moved:
                report.add(item.path, item.what, Action.REWRITTEN, "moved into a message behind the results")
            messages.append(self._result(call, text))
        if behind:
            messages.append({"role": "user", "content": behind})
        return messages

    def _result(self, call: ToolCall, text: str) -> JsonObject:
        if self._function_call or call.kind == FUNCTION_CALL:
            return {"role": "function", "name": call.wire_name, "content": text}
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def parse_results(self, messages: object) -> list[ToolResult]:
        found = []
        message: Any
        for message in messages if isinstance(messages, list) else [messages]:
            if member(message, "role") in ("tool", "function"):
                result = result_of(blocks_of_parts(message.get("content")), is_error=False)
                found.append(ToolResult(text_of(message.get("tool_call_id")), text_of(message.get("name")), result))
        return found


def _draft(entry: object) -> Draft:
    function = member(entry, "function")
    return Draft(
        member(entry, "id"), member(function, "name"), member(function, "arguments"), problem=_no_object(function)
    )


def _no_object(function: object) -> str | None:
    return None if isinstance(function, dict) else "the call holds no function with a name and arguments"


def _function(call: ToolCall, names: Names | None) -> JsonObject:
    return {"name": name_for(call, names), "arguments": json_text(call.arguments)}


def _accept(carry: Carry) -> Accept:
    others = [*(_AUDIO if carry.audio else ()), *((PDF,) if carry.documents else ())]
    return accepting(WEB_IMAGES if carry.images else (), others)


def _user_part(item: Media) -> JsonObject:
    address = f"data:{item.mime};base64,{item.data}"
    if item.mime in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": item.data, "format": _AUDIO[item.mime]}}
    if item.mime == PDF:
        file: dict[str, Any] = {"filename": item.uri.rsplit("/", 1)[-1] or "file.pdf", "file_data": address}
        return {"type": "file", "file": file}
    return {"type": "image_url", "image_url": {"url": address}}
