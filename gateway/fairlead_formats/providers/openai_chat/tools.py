"""Tools, calls and results of OpenAI Chat Completions, Azure OpenAI and compatible APIs, and of legacy `function_call`.

Pure module. A call is `message.tool_calls[] {id, type: function, function: {name, arguments: JSON text}}`, its result
is a message `{role: tool, tool_call_id, content: text}`. The legacy form is `message.function_call {name, arguments}`
with `{role: function, name, content}`. Results can hold only text: images and audio follow in a user message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.base import (
    BLOCK,
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
from fairlead_formats.messages.call import (
    CUSTOM,
    FUNCTION_CALL,
    Carry,
    Draft,
    ModelCall,
    ToolResult,
    freeform,
    freeform_text,
    items,
    member,
    name_for,
    text_of,
)
from fairlead_formats.messages.content import PDF, WEB_IMAGES, Accept, Media, accept_types, join_texts, json_text, media
from fairlead_formats.messages.reading import json_text_block, media_block, result_of
from fairlead_formats.messages.streams import Assembler
from fairlead_formats.names import Names
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.providers.openai_chat.assembler import ChatAssembler
from fairlead_formats.providers.openai_chat.definition_rules import function_definition_faults, tool_definition_faults
from fairlead_formats.request_rules.definitions import DefinitionFaults, rejection_by
from fairlead_formats.schema import rules
from fairlead_formats.schema.convert import UnusableSchema
from fairlead_formats.tool_format import Action, JsonObject, Options
from fairlead_formats.tools.definitions import Envelope, FormatLimits, Parts, ProviderTool, Targets, ToolFormat
from fairlead_formats.tools.envelopes import (
    list_of,
    lost_settings,
    not_a_function_error,
    rename_tool,
    tools_of,
    tools_request,
)

OPENAI_CHAT: Final = "openai-chat"
OPENAI_FUNCTIONS: Final = "openai-functions"
AZURE_OPENAI: Final = "azure-openai"
_MAX_TOOLS: Final = 128
_MAX_DESCRIPTION: Final = 1024
_GPT: Final = re.compile(r"(?:^|[/.:])gpt-(\d+)")
_AUDIO: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def write_function(parts: Parts, *, strict: bool) -> JsonObject:
    """A function definition without a name. `strict`: whether the format has the member `strict`."""
    out: JsonObject = {"name": ""}
    if parts.description:
        out["description"] = parts.description
    out["parameters"] = parts.schema
    if strict and parts.strict is not None:
        out["strict"] = parts.strict
    return out


def _write_tool(parts: Parts) -> JsonObject:
    return {"type": "function", "function": write_function(parts, strict=True)}


def _name_tool(tool: JsonObject, name: str) -> JsonObject:
    return {"type": "function", "function": {**tool["function"], "name": name}}


def _read_function(function: Any, path: str = "") -> ProviderTool:
    if not isinstance(function, dict):
        raise UnusableSchema("the tool has no function")
    converted_members = {"name", "description", "parameters", "output_schema", "type", "strict"}
    losses = lost_settings(function, converted_members, path)
    if function.get("strict") is True:
        losses += ((f"{path}/strict", "strict", "MCP has no strict mode; the schema keeps its form for strict mode"),)
    output = function.get("output_schema")
    return ProviderTool(function.get("name"), function.get("description"), function.get("parameters"), output, losses)


def _read_tool(tool: JsonObject) -> ProviderTool:
    if tool.get("type", "function") != "function":
        raise not_a_function_error(tool)
    if "function" not in tool and "parameters" in tool:
        return _read_function(tool)  # the flat form of Responses, which users send to Chat Completions by mistake
    function = _read_function(tool.get("function"), "/function")
    return msgspec.structs.replace(function, losses=function.losses + lost_settings(tool, {"type", "function"}))


def read_flat(tool: JsonObject) -> ProviderTool:
    """Read a function, in the flat or the nested form. Raises NotAFunction, UnusableSchema."""
    if "function" in tool:
        return _read_tool(tool)
    if tool.get("type", "function") != "function":
        raise not_a_function_error(tool)
    return _read_function(tool)


class ChatMessages(MessageFormat):
    """Reads and writes calls and results in messages of Chat Completions.

    Reads `tool_calls` and the legacy `function_call`. Writes `tool_calls`, or the legacy form if `function_call` is
    true.
    """

    def __init__(self, *, function_call: bool = False) -> None:
        self._function_call = function_call
        self.holds_freeform = not function_call

    def parts(self, message: object) -> Iterator[Part]:
        """Parts of a response (of its first choice), a choice, a message, or a list of calls."""
        if isinstance(message, list):
            for path, entry in with_paths("", message):
                yield call_part(path, _draft(entry))
            return
        for index in range(1, len(items(member(message, "choices")))):
            yield Part(f"/choices/{index}", BLOCK)
        path, message = _message(message)
        yield from _texts(member(message, "content"), f"{path}/content")
        yield from _texts(member(message, "refusal"), f"{path}/refusal")
        calls = member(message, "tool_calls")
        for call_path, entry in with_paths(f"{path}/tool_calls", items(calls)):
            yield _part(entry, call_path)
        legacy_call = member(message, FUNCTION_CALL)
        if legacy_call is not None and calls is None:
            yield call_part(f"{path}/function_call", _legacy_draft(legacy_call))
        call_members = () if calls is not None else (FUNCTION_CALL,)
        for name in extras(
            message, "role", "content", "refusal", "tool_calls", "finish_reason", "index", *call_members
        ):
            yield Part(f"{path}/{name}", THINKING if name.startswith(("reasoning", "thinking")) else BLOCK)

    def drafts(self, message: object) -> Iterable[Draft]:
        # the same calls as in `parts`, without looking through all other members, which takes as long as the rest
        if isinstance(message, list):
            return map(_draft, message)
        message = _message(message)[1]
        calls, legacy_call = member(message, "tool_calls"), member(message, FUNCTION_CALL)
        if calls is None and legacy_call is not None:
            return (_legacy_draft(legacy_call),)
        return (_draft(entry) for entry in items(calls) if _is_call(entry))

    def assembler(self, names: Names | None = None) -> Assembler:
        return ChatAssembler(names)

    def request_messages(self, message: object) -> list[JsonObject]:
        if isinstance(message, list):
            return [{"role": "assistant", "content": None, "tool_calls": message}] if message else []
        model_message = _message(message)[1]
        return [model_message] if isinstance(model_message, dict) else []

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        valid_calls = [call for call in calls if call.valid]
        if self._function_call:
            contents = [text or None, *[None] * len(valid_calls)]
            return [
                {"role": "assistant", "content": contents[index], FUNCTION_CALL: _function(call, names)}
                for index, call in enumerate(valid_calls)
            ] or ([{"role": "assistant", "content": text}] if text else [])
        entries = [_entry(call, names) for call in valid_calls]
        if not entries:
            return [{"role": "assistant", "content": text}] if text else []
        return [{"role": "assistant", "content": text or None, "tool_calls": entries}]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        messages, file_parts = [], []
        for call, body, report in answers.bodies(_accept(carry)):
            text = join_texts(body, report)
            files = media(body.blocks)
            if files:
                note = f"[{len(files)} file(s) of this result follow in the next message]"
                text = f"{text}\n\n{note}" if text else note
                file_parts.append({"type": "text", "text": f"Files that {call.wire_name} ({call.id}) returned:"})
                file_parts.extend(_user_part(item) for item in files)
            for item in files:
                report.add(item.path, item.what, Action.REWRITTEN, "moved into a message after the results")
            messages.append(self._result(call, text))
        if file_parts:
            messages.append({"role": "user", "content": file_parts})
        return messages

    def _result(self, call: ModelCall, text: str) -> JsonObject:
        if self._function_call or call.kind == FUNCTION_CALL:
            return {"role": "function", "name": call.wire_name, "content": text}
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        message: Any
        for path, message in with_paths("", messages) if isinstance(messages, list) else [("", messages)]:
            if member(message, "role") not in ("tool", "function"):
                yield AnswerPart(path)
                continue
            result = result_of(blocks_of_parts(message.get("content")), is_error=False)
            tool_result = ToolResult(text_of(message.get("tool_call_id")), text_of(message.get("name")), result)
            yield AnswerPart(path, tool_result, extras(message, "role", "content", "tool_call_id", "name"))


def blocks_of_parts(content: object) -> list[JsonObject]:
    """Blocks of OpenAI's `content`: text, or a list of parts of Chat Completions or Responses (`input_…`)."""
    if content is None or content == "":
        return []
    if not isinstance(content, list):
        return [json_text_block(content)]
    return [_block_of_part(part) for part in content]


def _block_of_part(part: object) -> JsonObject:
    kind = member(part, "type")
    if kind in ("text", "input_text", "output_text"):
        return json_text_block(member(part, "text") or "")
    if kind in ("image_url", "input_image", "input_file"):
        url = member(part, "image_url", "file_data")
        return block_of_data_url(member(url, "url") if isinstance(url, dict) else url, part)
    return json_text_block(part)


def block_of_data_url(url: object, part: object) -> JsonObject:
    """The block of a `data:` URL, a link for another URL, or the part as text."""
    if not isinstance(url, str):
        return json_text_block(part)
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        if head.endswith(";base64"):
            return media_block(head.removesuffix(";base64").lower(), data)
    if len(url) > 4096 or "://" not in url:
        return json_text_block(part)
    return {"type": "resource_link", "uri": url, "name": url.rsplit("/", 1)[-1]}


def _message(message: object) -> tuple[str, object]:
    """The message in a response (its first choice) or in a choice: its JSON Pointer, and the message."""
    path = ""
    choices = member(message, "choices")
    if isinstance(choices, list):
        path, message = "/choices/0", choices[0] if choices else None
    inner = member(message, "message")
    return (f"{path}/message", inner) if inner else (path, message)


def _texts(content: object, path: str) -> Iterator[Part]:
    if isinstance(content, str) and content:
        yield Part(path, TEXT, text_of(content))
    for part_path, part in with_paths(path, items(content)):
        text = member(part, "text", "refusal")
        is_text = member(part, "type") in ("text", "refusal") and isinstance(text, str)
        yield (
            Part(part_path, TEXT, text_of(text), extras=extras(part, "type", "text", "refusal"))
            if is_text
            else Part(part_path, BLOCK)
        )


def _part(entry: object, path: str) -> Part:
    if not _is_call(entry):
        return Part(path, BLOCK)
    is_custom = member(entry, "type") == CUSTOM
    call_member = "custom" if is_custom else "function"
    standard = ("name", "input") if is_custom else ("name", "arguments")
    return call_part(
        path,
        _draft(entry),
        extras(entry, "id", "type", "index", call_member) + extras(member(entry, call_member), *standard),
    )


def _is_call(entry: object) -> bool:
    return member(entry, "type") in (None, "function", CUSTOM)


def _legacy_draft(function_call: object) -> Draft:
    name, arguments = member(function_call, "name"), member(function_call, "arguments")
    return Draft(None, name, arguments, FUNCTION_CALL, _missing_function(function_call))


def _draft(entry: object) -> Draft:
    if member(entry, "type") == CUSTOM:
        custom = member(entry, CUSTOM)
        call_input = freeform(member(custom, "input") or "")
        return Draft(member(entry, "id"), member(custom, "name"), call_input, CUSTOM, _missing_function(custom))
    function = member(entry, "function")
    return Draft(
        member(entry, "id"),
        member(function, "name"),
        member(function, "arguments"),
        problem=_missing_function(function),
    )


def _missing_function(function: object) -> str | None:
    return None if isinstance(function, dict) else "the call has no function with a name and arguments"


def _entry(call: ModelCall, names: Names | None) -> JsonObject:
    text = freeform_text(call)
    if text is not None:
        return {"id": call.id, "type": CUSTOM, CUSTOM: {"name": name_for(call, names), "input": text}}
    return {"id": call.id, "type": "function", "function": _function(call, names)}


def _function(call: ModelCall, names: Names | None) -> JsonObject:
    return {"name": name_for(call, names), "arguments": json_text(call.arguments)}


def _accept(carry: Carry) -> Accept:
    file_types = [*(_AUDIO if carry.audio else ()), *((PDF,) if carry.documents else ())]
    return accept_types(WEB_IMAGES if carry.images else (), file_types)


def _user_part(item: Media) -> JsonObject:
    address = f"data:{item.mime};base64,{item.data}"
    if item.mime in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": item.data, "format": _AUDIO[item.mime]}}
    if item.mime == PDF:
        file: dict[str, Any] = {"filename": item.uri.rsplit("/", 1)[-1] or "file.pdf", "file_data": address}
        return {"type": "file", "file": file}
    return {"type": "image_url", "image_url": {"url": address}}


def targets(options: Options) -> Targets:
    """Schema keywords that a model accepts, and the keywords of strict mode if the options request it."""
    return lax_targets(options)[0], rules.OPENAI_STRICT if options.strict else None


def lax_targets(options: Options) -> Targets:
    """Schema keywords that a model accepts in formats without `strict`: Realtime and legacy `functions`."""
    version = _GPT.search(options.model or "")
    return (rules.OPENAI_5 if version and int(version[1]) >= 5 else rules.OPENAI), None


def openai_format(
    name: str,
    title: str,
    aliases: tuple[str, ...],
    envelope: Envelope,
    rules_of: Callable[[Options], Targets],
    faults: DefinitionFaults,
) -> ToolFormat:
    """A format with OpenAI's limits."""
    limits = FormatLimits(max_tools=_MAX_TOOLS, max_description=_MAX_DESCRIPTION)
    return ToolFormat(name, title, aliases, envelope, rules_of, limits, rejection_by(faults))


_CHAT: Final = ChatMessages()
_TOOLS: Final = Envelope(_write_tool, _name_tool, _read_tool, tools_request, tools_of)
_FUNCTIONS: Final = Envelope(
    lambda parts: write_function(parts, strict=False),
    rename_tool,
    read_flat,
    lambda tools: {"functions": tools},
    lambda payload: list_of(payload, "functions", "tools"),
)

FORMATS: Final = (
    ProviderFormat(
        tools=openai_format(
            OPENAI_CHAT,
            "OpenAI Chat Completions",
            ("openai", "chat", "openai-chat-completions", "chat-completions", "litellm", "vllm", "ollama"),
            _TOOLS,
            targets,
            tool_definition_faults,
        ),
        messages=_CHAT,
    ),
    ProviderFormat(
        tools=openai_format(
            OPENAI_FUNCTIONS,
            "OpenAI functions (before tools)",
            ("functions", "openai-function", "function-call", "openai-legacy"),
            _FUNCTIONS,
            lax_targets,
            function_definition_faults,
        ),
        messages=ChatMessages(function_call=True),
    ),
    ProviderFormat(
        tools=openai_format(
            AZURE_OPENAI, "Azure OpenAI", ("azure", "azure-openai-chat"), _TOOLS, targets, tool_definition_faults
        ),
        messages=_CHAT,
    ),
)
