"""Gemini and Gemini Live: calls are `functionCall` parts, results `functionResponse` parts with an object each.

Pure module. `{functionCall: {id?, name, args: object}}` and `{functionResponse: {id?, name, response: object}}`; ids
came with Gemini 3, before that a response is matched by name and order. Scalars and text are wrapped: `output` holds a
result and `error` an error, as the provider's documentation has it. Live sends `{toolCall: {functionCalls}}` and wants
`{toolResponse: {functionResponses}}`. Both the members of the API and the Python SDK's (snake case) are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead_gateway.formats import registry
from fairlead_gateway.formats.format import Action, JsonObject
from fairlead_gateway.formats.messages.base import Answers, MessageFormat
from fairlead_gateway.formats.messages.call import Carry, ToolCall, ToolResult, name_for
from fairlead_gateway.formats.messages.content import (
    MEGABYTE,
    PDF,
    Body,
    Report,
    Text,
    accepting,
    media,
    report_repeated,
)
from fairlead_gateway.formats.messages.drafts import Draft, items, member, text_of
from fairlead_gateway.formats.messages.reading import as_text, media_block, result_of
from fairlead_gateway.formats.names import Names

_IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_AUDIO: Final = (
    "audio/wav",
    "audio/x-wav",
    "audio/mpeg",
    "audio/mp3",
    "audio/aiff",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
)
_RESERVED: Final = frozenset({"output", "error", "content"})
"""Members of a response that mean something to the provider or to us."""


class GeminiMessages(MessageFormat):
    """Gemini `generateContent`."""

    name = registry.GEMINI

    def drafts(self, message: object) -> Iterator[Draft]:
        """From a response, a candidate, a content or a list of parts; also from one piece of a stream, whose calls are
        whole.
        """
        entries = message if isinstance(message, list) else _parts(message) or [message]
        for entry in entries:
            call = member(entry, "functionCall", "function_call")
            if call is not None:
                yield _draft(call)

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None) -> list[JsonObject]:
        parts = [{"functionCall": _call(call, names)} for call in calls if call.valid]
        return [{"role": "model", "parts": parts}] if parts else []

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        images = _IMAGES if carry.images else ()
        accept = accepting(images, [*_AUDIO, *((PDF,) if carry.documents else ())], max_bytes=20 * MEGABYTE)
        parts: list[JsonObject] = []
        behind: list[JsonObject] = []
        for call, body, report in answers.bodies(accept):
            response = _response(call, body, report)
            inline = [{"inlineData": {"mimeType": item.mime, "data": item.data}} for item in media(body.blocks)]
            if inline and carry.nested_media:
                response["parts"] = inline
            elif inline:
                for item in media(body.blocks):
                    report.add(item.path, item.what, Action.REWRITTEN, "moved into a message behind the results")
                behind.extend([{"text": f"Files that {call.wire_name} returned:"}, *inline])
            parts.append({"functionResponse": response})
        return [{"role": "user", "parts": part} for part in (parts, behind) if part]

    def parse_results(self, messages: object) -> list[ToolResult]:
        entries = (entry for message in items(messages) or [messages] for entry in _parts(message) or [message])
        responses = (member(entry, "functionResponse", "function_response") for entry in entries)
        return [_result(response) for response in responses if isinstance(response, dict)]


class GeminiLiveMessages(MessageFormat):
    """Gemini Live: messages of the server in, messages of the client out. It takes no media with a response."""

    name = registry.GEMINI_LIVE

    def drafts(self, message: object) -> Iterator[Draft]:
        """From one message of the server, or a list of them."""
        for entry in items(message) or [message]:
            calls = member(member(entry, "toolCall", "tool_call") or entry, "functionCalls", "function_calls")
            for call in items(calls):
                yield _draft(call)

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None) -> list[JsonObject]:
        written = [_call(call, names) for call in calls if call.valid]
        return [{"toolCall": {"functionCalls": written}}] if written else []

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        responses = [_response(call, body, report) for call, body, report in answers.bodies(accepting())]
        return [{"toolResponse": {"functionResponses": responses}}] if responses else []

    def parse_results(self, messages: object) -> list[ToolResult]:
        found: list[ToolResult] = []
        for message in items(messages) or [messages]:
            responses = member(
                member(message, "toolResponse", "tool_response"), "functionResponses", "function_responses"
            )
            found.extend(_result(response) for response in items(responses) if isinstance(response, dict))
        return found


def _parts(message: object) -> list[Any]:
    """The parts of a response (its first candidate), a candidate, a content, or a list of parts."""
    candidates = items(member(message, "candidates"))
    if candidates:
        message = candidates[0]
    content = member(message, "content")
    return items(member(content if isinstance(content, dict) else message, "parts"))


def _draft(call: object) -> Draft:
    return Draft(member(call, "id"), member(call, "name"), member(call, "args"))


def _call(call: ToolCall, names: Names | None) -> JsonObject:
    ident = {} if call.made_id else {"id": call.id}
    return {**ident, "name": name_for(call, names), "args": call.arguments}


def _response(call: ToolCall, body: Body, report: Report) -> JsonObject:
    written = {} if call.made_id else {"id": call.id}
    return {**written, "name": call.wire_name, "response": _object(body, report)}


def _object(body: Body, report: Report) -> JsonObject:
    """The object of a response: structured content as it is where it is an object, all else below `output`."""
    said = [block.text for block in body.blocks if isinstance(block, Text) and block.path != body.repeated]
    if len(said) > 1:
        report.add("/content", "text", Action.REWRITTEN, "several blocks became one string")
    report_repeated(body, report)
    key, structured = "error" if body.is_error else "output", body.structured
    if structured is None:
        return {key: "\n\n".join(said)}
    if said:
        return {key: _no_text(structured, report), "content": "\n\n".join(said)}
    if not body.is_error and isinstance(structured, dict) and structured and _RESERVED.isdisjoint(structured):
        return structured
    return {key: _no_text(structured, report)}


def _no_text(structured: Any, report: Report) -> Any:
    if isinstance(structured, str):
        report.add("/structuredContent", "structuredContent", Action.REWRITTEN, "text, which is told as such")
    return structured


def _result(response: JsonObject) -> ToolResult:
    value = response.get("response")
    keys = value.keys() if isinstance(value, dict) else set()
    is_error = "error" in keys and keys <= {"error", "content"}
    blocks: list[JsonObject] = []
    structured: Any = None
    if not isinstance(value, dict):
        blocks = [] if value is None else [as_text(value)]
    elif is_error or ("output" in keys and keys <= {"output", "content"}):
        inner = value["error" if is_error else "output"]
        structured = None if isinstance(inner, str) else inner
        blocks = [as_text(text) for text in (inner, value.get("content")) if isinstance(text, str) and text]
    else:
        structured = value
    for part in items(response.get("parts")):
        data = member(part, "inlineData", "inline_data")
        blocks.append(media_block(text_of(member(data, "mimeType", "mime_type")), member(data, "data")))
    result = result_of(blocks, is_error=is_error, structured=structured)
    return ToolResult(text_of(response.get("id")), text_of(response.get("name")), result)
