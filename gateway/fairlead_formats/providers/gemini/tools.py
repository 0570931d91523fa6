"""Tools, calls and results of Gemini and Gemini Live: `functionCall` and `functionResponse` parts.

Pure module. A call is `{functionCall: {id?, name, args: object}}`, a result `{functionResponse: {id?, name, response:
object}}`. Ids exist since Gemini 3; without an id a response is matched to its call by name and order. `response` has
to be an object, so text and scalars go into its member `output`, or `error` for an error, as Google documents. Live
sends `{toolCall: {functionCalls}}` and expects `{toolResponse: {functionResponses}}`. Members are read in the spelling
of the API and in the spelling of the Python SDK (snake case).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.base import (
    BLOCK,
    SERVER_TOOL,
    TEXT,
    THINKING,
    AnswerPart,
    Answers,
    MessageFormat,
    Part,
    call_part,
    extras,
    with_paths,
)
from fairlead_formats.messages.call import Carry, Draft, ModelCall, ToolResult, items, member, name_for, text_of
from fairlead_formats.messages.content import (
    MEGABYTE,
    PDF,
    Body,
    LossReport,
    Text,
    accept_types,
    json_text,
    media,
    report_repeated,
)
from fairlead_formats.messages.reading import json_text_block, media_block, result_of
from fairlead_formats.names import Names
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.providers.gemini.definition_rules import definition_faults
from fairlead_formats.providers.gemini.openapi import from_openapi
from fairlead_formats.request_rules.definitions import rejection_by
from fairlead_formats.schema import rules
from fairlead_formats.tool_format import GEMINI_JSON_SCHEMA, Action, Definition, JsonObject, Options
from fairlead_formats.tools.definitions import (
    Envelope,
    FormatLimits,
    NotAFunction,
    Parts,
    ProviderTool,
    Targets,
    ToolFormat,
)
from fairlead_formats.tools.envelopes import list_of, lost_settings, rename_tool

GEMINI: Final = "gemini"
_encode: Final = msgspec.json.Encoder().encode
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
_MAX_TOOLS: Final = 512
_REFERENCE: Final = b'"$ref":'
"""The member name `$ref` in JSON text. A string with this text does not match, because JSON escapes its quotes."""
_RESERVED_NAMES: Final = frozenset({"output", "error", "content"})
"""Names in `response` with a meaning of their own. Structured content that has one of them is wrapped in `output`."""


def _tool_writer(field: str | None) -> Callable[[Parts], JsonObject]:
    def write(parts: Parts) -> JsonObject:
        out: JsonObject = {"name": ""}
        if parts.description:
            out["description"] = parts.description
        member = field or parts.options.gemini_field
        if member == GEMINI_JSON_SCHEMA or parts.schema.get("properties"):
            out[member] = parts.schema  # `parameters` does not accept an object without properties
        return out

    return write


_CAMEL_CASE: Final = {
    "parameters_json_schema": "parametersJsonSchema",
    "response_json_schema": "responseJsonSchema",
}


def _read_tool(tool: JsonObject) -> ProviderTool:
    if "name" not in tool and "description" not in tool:
        raise NotAFunction(f"{', '.join(tool)[:80]!r} is the provider's own, not a function")
    tool = {_CAMEL_CASE.get(member, member): value for member, value in tool.items()}
    schema = tool.get("parametersJsonSchema")
    if schema is None and isinstance(tool.get("parameters"), dict):
        schema = from_openapi(tool["parameters"])
    output = tool.get("responseJsonSchema")
    if output is None and isinstance(tool.get("response"), dict):
        output = from_openapi(tool["response"])
    converted_members = {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"}
    return ProviderTool(
        tool.get("name"), tool.get("description"), schema, output, lost_settings(tool, converted_members)
    )


def _unpack(payload: Any) -> list[Any]:
    if isinstance(payload, dict) and isinstance(payload.get("setup"), dict):
        payload = payload["setup"]
    out: list[Any] = []
    for item in list_of(payload, "tools", "functionDeclarations", "function_declarations"):
        functions = list_of(item, "functionDeclarations", "function_declarations")
        out += functions
        other_tools = {} if functions == [item] or not isinstance(item, dict) else _other_tools(item)
        out += [other_tools] if other_tools else []
    return out


def _other_tools(item: JsonObject) -> JsonObject:
    """The provider's own tools that share an entry with functions."""
    return {
        name: value for name, value in item.items() if name not in ("functionDeclarations", "function_declarations")
    }


def _request(tools: list[Definition]) -> JsonObject:
    return {"tools": [{"functionDeclarations": tools}] if tools else []}


class GeminiMessages(MessageFormat):
    """Reads and writes calls and results in contents of Gemini's `generateContent`."""

    def parts(self, message: object) -> Iterator[Part]:
        """Parts of a response, a candidate, a content or a list of parts. An event of a stream is a response as well:
        its calls are complete, so streams need no assembler.
        """
        entries = with_paths("", message) if isinstance(message, list) else _parts_with_paths(message)
        for path, entry in entries or [("", message)]:
            yield _part(entry, path)
        for index in range(1, len(items(member(message, "candidates")))):
            yield Part(f"/candidates/{index}", BLOCK)

    def request_messages(self, message: object) -> list[JsonObject]:
        parts = message if isinstance(message, list) else [entry for _, entry in _parts_with_paths(message)]
        return [{"role": "model", "parts": parts}] if parts else []

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        parts: list[JsonObject] = [{"text": text}] if text else []
        parts += [{"functionCall": _call(call, names)} for call in calls if call.valid]
        return [{"role": "model", "parts": parts}] if parts else []

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        images = _IMAGES if carry.images else ()
        accept = accept_types(images, [*_AUDIO, *((PDF,) if carry.documents else ())], max_bytes=20 * MEGABYTE)
        parts: list[JsonObject] = []
        file_parts: list[JsonObject] = []
        for call, body, report in answers.bodies(accept):
            response = _response(call, body, report)
            inline = [{"inlineData": {"mimeType": item.mime, "data": item.data}} for item in media(body.blocks)]
            if inline and carry.nested_media:
                response["parts"] = inline
            elif inline:
                for item in media(body.blocks):
                    report.add(item.path, item.what, Action.REWRITTEN, "moved into a message after the results")
                file_parts.extend([{"text": f"Files that {call.wire_name} returned:"}, *inline])
            parts.append({"functionResponse": response})
        return [{"role": "user", "parts": part} for part in (parts, file_parts) if part]

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        for start, message in with_paths("", items(messages)) or [("", messages)]:
            for path, entry in _parts_with_paths(message, start) or [(start, message)]:
                response = member(entry, "functionResponse", "function_response")
                yield _answer(path, response) if isinstance(response, dict) else AnswerPart(path)


class GeminiLiveMessages(MessageFormat):
    """Reads calls in Gemini Live's server messages, and writes results as client messages, without media."""

    def parts(self, message: object) -> Iterator[Part]:
        """Parts of a server message, or of a list of them."""
        for path, entry in with_paths("", items(message)) or [("", message)]:
            tool_call = member(entry, "toolCall", "tool_call")
            calls = items(member(tool_call or entry, "functionCalls", "function_calls"))
            calls_path = f"{path}/toolCall/functionCalls" if tool_call else f"{path}/functionCalls"
            for call_path, function_call in with_paths(calls_path, calls):
                yield _part({"functionCall": function_call}, call_path)
            turn = member(member(entry, "serverContent", "server_content"), "modelTurn", "model_turn")
            for part_path, part in _parts_with_paths(turn, f"{path}/serverContent/modelTurn"):
                yield _part(part, part_path)
            if not calls and turn is None:
                yield Part(path, BLOCK)

    def request_messages(self, message: object) -> list[JsonObject]:
        return message if isinstance(message, list) else [message] if isinstance(message, dict) else []

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        turns = [{"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": text}]}}}] if text else []
        function_calls = [_call(call, names) for call in calls if call.valid]
        return [*turns, *([{"toolCall": {"functionCalls": function_calls}}] if function_calls else [])]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        responses = [_response(call, body, report) for call, body, report in answers.bodies(accept_types())]
        return [{"toolResponse": {"functionResponses": responses}}] if responses else []

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        for path, message in with_paths("", items(messages)) or [("", messages)]:
            tool_response = member(message, "toolResponse", "tool_response")
            responses = items(member(tool_response, "functionResponses", "function_responses"))
            for response_path, response in with_paths(f"{path}/toolResponse/functionResponses", responses):
                yield _answer(response_path, response) if isinstance(response, dict) else AnswerPart(response_path)
            if not responses:
                yield AnswerPart(path)


def _parts_with_paths(message: object, path: str = "") -> list[tuple[str, object]]:
    """The parts of a response (its first candidate), a candidate, or a content, each with its path."""
    candidates = items(member(message, "candidates"))
    if candidates:
        message, path = candidates[0], f"{path}/candidates/0"
    content = member(message, "content")
    if isinstance(content, dict):
        message, path = content, f"{path}/content"
    return with_paths(f"{path}/parts", items(member(message, "parts")))


def _part(entry: object, path: str) -> Part:
    call, text = member(entry, "functionCall", "function_call"), member(entry, "text")
    if call is not None:
        extra_names = extras(entry, "functionCall", "function_call") + extras(call, "id", "name", "args")
        return call_part(path, Draft(member(call, "id"), member(call, "name"), member(call, "args")), extra_names)
    if member(entry, "thought") is True:
        return Part(path, THINKING)
    if isinstance(text, str):
        return Part(path, TEXT, text_of(text), extras=extras(entry, "text"))
    server_tool = member(
        entry, "executableCode", "executable_code", "codeExecutionResult", "code_execution_result", "toolCall"
    )
    return Part(path, BLOCK if server_tool is None else SERVER_TOOL)


def _call(call: ModelCall, names: Names | None) -> JsonObject:
    ident = {} if call.made_id else {"id": call.id}
    return {**ident, "name": name_for(call, names), "args": call.arguments}


def _response(call: ModelCall, body: Body, report: LossReport) -> JsonObject:
    ident = {} if call.made_id else {"id": call.id}
    return {**ident, "name": call.wire_name, "response": _object(body, report)}


def _answer(path: str, response: JsonObject) -> AnswerPart:
    return AnswerPart(path, _result(response), extras(response, "id", "name", "response", "parts"))


def _object(body: Body, report: LossReport) -> JsonObject:
    """The object of a response: structured content if it is an object, otherwise the result in `output`."""
    texts = [block.text for block in body.blocks if isinstance(block, Text) and block.path != body.repeated_path]
    if len(texts) > 1:
        report.add("/content", "text", Action.REWRITTEN, "several blocks became one string")
    report_repeated(body, report)
    key, structured = "error" if body.is_error else "output", body.structured
    if structured is None:
        return {key: "\n\n".join(texts)}
    if isinstance(structured, dict | list) and _REFERENCE in _encode(structured):
        why = "Gemini would read $ref as a reference into the response: written as text"
        report.add("/structuredContent", "structuredContent", Action.REWRITTEN, why)
        text = json_text(structured)
        return {key: text, "content": "\n\n".join(texts)} if texts else {key: text}
    if texts:
        return {key: _report_string(structured, report), "content": "\n\n".join(texts)}
    if not body.is_error and isinstance(structured, dict) and structured and _RESERVED_NAMES.isdisjoint(structured):
        return structured
    return {key: _report_string(structured, report)}


def _report_string(structured: Any, report: LossReport) -> Any:
    if isinstance(structured, str):
        report.add("/structuredContent", "structuredContent", Action.REWRITTEN, "it is a string: written as text")
    return structured


def _result(response: JsonObject) -> ToolResult:
    value = response.get("response")
    keys = value.keys() if isinstance(value, dict) else set()
    is_error = "error" in keys and keys <= {"error", "content"}
    blocks: list[JsonObject] = []
    structured: Any = None
    if not isinstance(value, dict):
        blocks = [] if value is None else [json_text_block(value)]
    elif is_error or ("output" in keys and keys <= {"output", "content"}):
        output = value["error" if is_error else "output"]
        structured = None if isinstance(output, str) else output
        blocks = [json_text_block(text) for text in (output, value.get("content")) if isinstance(text, str) and text]
    else:
        structured = value
    for part in items(response.get("parts")):
        data = member(part, "inlineData", "inline_data")
        blocks.append(media_block(text_of(member(data, "mimeType", "mime_type")), member(data, "data")))
    result = result_of(blocks, is_error=is_error, structured=structured)
    return ToolResult(text_of(response.get("id")), text_of(response.get("name")), result)


def _targets(options: Options) -> Targets:
    """Schema keywords that the target accepts: OpenAPI's for `parameters`, or JSON Schema's, as the options say."""
    return (rules.GEMINI_JSON if options.gemini_field == GEMINI_JSON_SCHEMA else rules.GEMINI), None


FORMATS: Final = (
    ProviderFormat(
        tools=ToolFormat(
            GEMINI,
            "Gemini",
            ("google", "google-genai", "vertex", "vertex-ai"),
            Envelope(_tool_writer(None), rename_tool, _read_tool, _request, _unpack, grouped=True),
            _targets,
            FormatLimits(max_tools=_MAX_TOOLS),
            rejection_by(definition_faults),
        ),
        messages=GeminiMessages(),
        families=("gemini",),
    ),
    ProviderFormat(
        tools=ToolFormat(
            "gemini-live",
            "Gemini Live",
            ("google-live", "gemini-realtime"),
            Envelope(
                _tool_writer("parameters"),
                rename_tool,
                _read_tool,
                lambda tools: {"setup": _request(tools)},
                _unpack,
                grouped=True,
            ),
            lambda options: (rules.GEMINI, None),  # Live reads only `parameters`, and ignores the other member silently
            FormatLimits(max_tools=_MAX_TOOLS),
            rejection_by(definition_faults),
        ),
        messages=GeminiLiveMessages(),
    ),
)
