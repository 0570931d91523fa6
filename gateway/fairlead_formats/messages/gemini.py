"""Gemini and Gemini Live: calls are `functionCall` parts, results `functionResponse` parts with an object each.

Pure module. `{functionCall: {id?, name, args: object}}` and `{functionResponse: {id?, name, response: object}}`; ids
came with Gemini 3, before that a response is matched by name and order. Scalars and text are wrapped: `output` holds a
result and `error` an error, as the provider's documentation has it. Live sends `{toolCall: {functionCalls}}` and wants
`{toolResponse: {functionResponses}}`. Both the members of the API and the Python SDK's (snake case) are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead_formats import registry
from fairlead_formats.messages.base import Answers, MessageFormat
from fairlead_formats.messages.call import Carry, ToolCall, ToolResult, name_for
from fairlead_formats.messages.content import (
    MEGABYTE,
    PDF,
    Body,
    Report,
    Text,
    accepting,
    media,
    report_repeated,
)
from fairlead_formats.messages.drafts import Draft, items, member, text_of
from fairlead_formats.messages.parts import (
    BLOCK,
    SERVER_TOOL,
    TEXT,
    THINKING,
    Answer,
    Part,
    call,
    extras,
    pointed,
)
from fairlead_formats.messages.reading import as_text, media_block, result_of
from fairlead_formats.names import Names
from fairlead_formats.tools.format import Action, JsonObject

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

    def parts(self, message: object) -> Iterator[Part]:
        """From a response, a candidate, a content or a list of parts; also from one piece of a stream, whose calls are
        whole.
        """
        found = pointed("", message) if isinstance(message, list) else _pointed(message)
        for path, entry in found or [("", message)]:
            yield _part(entry, path)
        for place in range(1, len(items(member(message, "candidates")))):
            yield Part(f"/candidates/{place}", BLOCK)

    def in_request(self, message: object) -> list[JsonObject]:
        parts = message if isinstance(message, list) else [entry for _, entry in _pointed(message)]
        return [{"role": "model", "parts": parts}] if parts else []

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        parts: list[JsonObject] = [{"text": text}] if text else []
        parts += [{"functionCall": _call(made, names)} for made in calls if made.valid]
        return [{"role": "model", "parts": parts}] if parts else []

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        images = _IMAGES if carry.images else ()
        accept = accepting(images, [*_AUDIO, *((PDF,) if carry.documents else ())], max_bytes=20 * MEGABYTE)
        parts: list[JsonObject] = []
        behind: list[JsonObject] = []
        for made, body, report in answers.bodies(accept):
            response = _response(made, body, report)
            inline = [{"inlineData": {"mimeType": item.mime, "data": item.data}} for item in media(body.blocks)]
            if inline and carry.nested_media:
                response["parts"] = inline
            elif inline:
                for item in media(body.blocks):
                    report.add(item.path, item.what, Action.REWRITTEN, "moved into a message behind the results")
                behind.extend([{"text": f"Files that {made.wire_name} returned:"}, *inline])
            parts.append({"functionResponse": response})
        return [{"role": "user", "parts": part} for part in (parts, behind) if part]

    def answers(self, messages: object) -> Iterator[Answer]:
        for start, message in pointed("", items(messages)) or [("", messages)]:
            for path, entry in _pointed(message, start) or [(start, message)]:
                response = member(entry, "functionResponse", "function_response")
                yield _answer(path, response) if isinstance(response, dict) else Answer(path)


class GeminiLiveMessages(MessageFormat):
    """Gemini Live: messages of the server in, messages of the client out. It takes no media with a response."""

    name = registry.GEMINI_LIVE

    def parts(self, message: object) -> Iterator[Part]:
        """From one message of the server, or a list of them."""
        for path, entry in pointed("", items(message)) or [("", message)]:
            inner = member(entry, "toolCall", "tool_call")
            calls = items(member(inner or entry, "functionCalls", "function_calls"))
            at = f"{path}/toolCall" if inner else path
            for place, one in pointed(f"{at}/functionCalls", calls):
                yield _part({"functionCall": one}, place)
            turn = member(member(entry, "serverContent", "server_content"), "modelTurn", "model_turn")
            for place, part in _pointed(turn, f"{path}/serverContent/modelTurn"):
                yield _part(part, place)
            if not calls and turn is None:
                yield Part(path, BLOCK)

    def in_request(self, message: object) -> list[JsonObject]:
        return message if isinstance(message, list) else [message] if isinstance(message, dict) else []

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        said = [{"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": text}]}}}] if text else []
        written = [_call(made, names) for made in calls if made.valid]
        return [*said, *([{"toolCall": {"functionCalls": written}}] if written else [])]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        responses = [_response(made, body, report) for made, body, report in answers.bodies(accepting())]
        return [{"toolResponse": {"functionResponses": responses}}] if responses else []

    def answers(self, messages: object) -> Iterator[Answer]:
        for path, message in pointed("", items(messages)) or [("", messages)]:
            inner = member(message, "toolResponse", "tool_response")
            responses = items(member(inner, "functionResponses", "function_responses"))
            for at, response in pointed(f"{path}/toolResponse/functionResponses", responses):
                yield _answer(at, response) if isinstance(response, dict) else Answer(at)
            if not responses:
                yield Answer(path)


def _pointed(message: object, path: str = "") -> list[tuple[str, object]]:
    """The parts of a response (its first candidate), a candidate, or a content, with their paths."""
    candidates = items(member(message, "candidates"))
    if candidates:
        message, path = candidates[0], f"{path}/candidates/0"
    content = member(message, "content")
    if isinstance(content, dict):
        message, path = content, f"{path}/content"
    return pointed(f"{path}/parts", items(member(message, "parts")))


def _part(entry: object, path: str) -> Part:
    made, text = member(entry, "functionCall", "function_call"), member(entry, "text")
    if made is not None:
        beyond = extras(entry, "functionCall", "function_call") + extras(made, "id", "name", "args")
        return call(path, Draft(member(made, "id"), member(made, "name"), member(made, "args")), beyond)
    if member(entry, "thought") is True:
        return Part(path, THINKING)
    if isinstance(text, str):
        return Part(path, TEXT, text_of(text), extras=extras(entry, "text"))
    server = member(
        entry, "executableCode", "executable_code", "codeExecutionResult", "code_execution_result", "toolCall"
    )
    return Part(path, BLOCK if server is None else SERVER_TOOL)


def _call(made: ToolCall, names: Names | None) -> JsonObject:
    ident = {} if made.made_id else {"id": made.id}
    return {**ident, "name": name_for(made, names), "args": made.arguments}


def _response(made: ToolCall, body: Body, report: Report) -> JsonObject:
    written = {} if made.made_id else {"id": made.id}
    return {**written, "name": made.wire_name, "response": _object(body, report)}


def _answer(path: str, response: JsonObject) -> Answer:
    return Answer(path, _result(response), extras(response, "id", "name", "response", "parts"))


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
