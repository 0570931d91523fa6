"""Conversion of requests between Bedrock Converse and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.claude_thinking import (
    ADAPTIVE,
    adaptive_effort,
    claude_thinking,
    never_thinks,
    thinks_adaptively,
)
from fairlead_formats.neutral.conversation import (
    BEGINNING,
    NeutralRequest,
    OutputSchema,
    SamplingSettings,
    ToolChoice,
    parse_effort,
)
from fairlead_formats.neutral.members import RequestMembers, report_extras, require_messages
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.providers.bedrock.request import NO_CALLS
from fairlead_formats.providers.bedrock.translation.messages import read_messages, write_messages
from fairlead_formats.wire.protocol import BadRequest, TranslationLosses

_CLAUDE: Final = re.compile(r"claude|anthropic", re.IGNORECASE)
_MIXES_RESULTS: Final = re.compile(r"claude|anthropic|nova", re.IGNORECASE)
"""Models that accept results and other blocks in one message."""
_FIELDS: Final = "additionalModelRequestFields"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def read_request(
    body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses
) -> NeutralRequest:
    """Read a client's request. `model` and `stream` come from the path of the request. Raises BadRequest."""
    members = RequestMembers(body, losses)
    members.leave_out("fairlead", "requestMetadata")
    members.refuse("promptVariables", "only Bedrock has managed prompts; send the whole conversation in `messages`")
    turns = read_messages(require_messages(members, "messages", "content", is_text=False), losses)
    system = []
    for block in items(members.first("system")):
        report_extras(block, losses, "text")
        system.append(text_of(member(block, "text")))
    config = RequestMembers(members.first("toolConfig"), losses)
    tools, choice = [], _choice(config.first("toolChoice"))
    for tool in items(config.first("tools")):
        if member(tool, "cachePoint") is None:
            tools.append(tool)
        else:
            losses.add("cachePoint")
    settings = _settings(members, losses)
    members.report_rest()
    return NeutralRequest(
        model=model or "",
        stream=bool(stream),
        system=tuple(text for text in system if text),
        turns=turns,
        tools=tools,
        choice=choice,
        settings=settings,
    )


def _settings(members: RequestMembers, losses: TranslationLosses) -> SamplingSettings:
    config = RequestMembers(members.first("inferenceConfig"), losses)
    fields = RequestMembers(members.first(_FIELDS), losses)
    output = RequestMembers(members.first("outputConfig"), losses)
    thinking = fields.first("thinking", "reasoning_config")
    kind = member(thinking, "type")
    budget = member(thinking, "budget_tokens") if kind == "enabled" else None
    effort = parse_effort(output.first("effort"))
    settings = SamplingSettings(
        max_tokens=config.positive_integer("maxTokens"),
        temperature=config.number("temperature"),
        top_p=config.number("topP"),
        top_k=fields.positive_integer("top_k"),
        stop=config.texts("stopSequences"),
        effort="none" if kind == "disabled" else effort,
        budget=budget if isinstance(budget, int) and not isinstance(budget, bool) else None,
        include_reasoning=kind in ("enabled", "adaptive"),
        output=_output(output.first("textFormat")),
    )
    for object_members in (config, fields, output):
        object_members.report_rest()
    return settings


def _output(form: object) -> OutputSchema | None:
    json_schema = member(member(form, "structure"), "jsonSchema")
    try:
        schema = _decode(text_of(member(json_schema, "schema")))
    except (msgspec.MsgspecError, RecursionError):
        return None
    return OutputSchema(schema, text_of(member(json_schema, "name")) or "answer") if isinstance(schema, dict) else None


def _choice(choice: object) -> ToolChoice | None:
    name = member(member(choice, "tool"), "name")
    if isinstance(name, str):
        return ToolChoice("required", (name,))
    if member(choice, "any") is not None:
        return ToolChoice("required")
    if member(choice, NO_CALLS) is not None:
        return ToolChoice("none")
    return None if member(choice, "auto") is None else ToolChoice("auto")


def write_request(
    request: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a request to the provider, except the members that depend on the model (`adapt_to_model`)."""
    settings, written_turns = request.settings, write_messages(request.turns, losses)
    if not written_turns.messages:
        raise BadRequest("messages: the request needs at least one user message", "messages")
    if written_turns.messages[0]["role"] != "user":  # the API refuses a conversation that the model begins
        written_turns.messages.insert(0, {"role": "user", "content": [{"text": BEGINNING}]})
        losses.add("first_message")
    body: dict[str, Any] = {"messages": written_turns.messages}
    system = [{"text": text} for text in (*request.system, *written_turns.system) if text.strip()]
    if system:
        body["system"] = system
    if tools.definitions:
        tool_choice = _write_choice(choice, losses)
        body["toolConfig"] = {"tools": tools.definitions, **({"toolChoice": tool_choice} if tool_choice else {})}
        if settings.parallel is False:
            losses.add("parallel_tool_calls")
    fields: dict[str, Any] = {}
    thinking = claude_thinking(request, choice, losses)
    if thinking:
        fields["thinking"] = thinking
    if settings.top_k is not None and not thinking:
        fields["top_k"] = settings.top_k
    if fields:
        body[_FIELDS] = fields
    config = _config(settings, losses, thinks=bool(thinking))
    if config:
        body["inferenceConfig"] = config
    if settings.output is not None and settings.output.schema is not None:
        schema = {"schema": _encode(settings.output.schema).decode(), "name": settings.output.name}
        body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}
    elif settings.output is not None:
        losses.add("json_object")
    return body


def _config(settings: SamplingSettings, losses: TranslationLosses, *, thinks: bool) -> dict[str, Any]:
    """Sampling settings that the API accepts: temperatures up to 1, and no setting together with thinking."""
    for name in ("seed", "frequency_penalty", "presence_penalty", "user"):
        if getattr(settings, name):
            losses.add(name)
    for name in settings.openai_only:
        losses.add(name)
    config: dict[str, Any] = {}
    if settings.max_tokens is not None:
        config["maxTokens"] = settings.max_tokens
    if settings.stop:
        config["stopSequences"] = list(settings.stop)
    if thinks:
        losses.update(name for name in ("temperature", "top_p", "top_k") if getattr(settings, name) is not None)
        return config
    if settings.temperature is not None:
        config["temperature"] = min(settings.temperature, 1)
        if settings.temperature > 1:
            losses.add("temperature")
    if settings.top_p is not None and settings.temperature is not None:  # newer models of Claude refuse both together
        losses.add("top_p")
    elif settings.top_p is not None:
        config["topP"] = settings.top_p
    return config


def _write_choice(choice: ToolChoice | None, losses: TranslationLosses) -> dict[str, Any] | None:
    if choice is None:
        return None
    if choice.mode == "none":
        return {NO_CALLS: {}}
    if choice.mode == "required" and len(choice.names) == 1:
        return {"tool": {"name": choice.names[0]}}
    if choice.names:
        losses.add("tool_choice")
    return {"any": {}} if choice.mode == "required" else {"auto": {}}


def adapt_to_model(members: dict[str, Raw], model: str, window: int, losses: TranslationLosses) -> None:
    """Adapt members of a request to the model.

    Fields that only Claude has are removed for other models, and `thinking` is removed for models that cannot think.
    Newer models of Claude get adaptive thinking with an effort. For models that refuse results and other blocks in one
    message, the other blocks move into the last result.
    """
    if not _MIXES_RESULTS.search(model) and b'"toolResult"' in bytes(members["messages"]):
        members["messages"] = Raw(_encode([*map(_move_into_last_result, _decode(members["messages"]))]))
    fields = _decode(members.get(_FIELDS, b"{}"))
    if not fields:
        return
    is_claude = _CLAUDE.search(model) is not None
    thinking = fields.get("thinking")
    if thinking and (not is_claude or never_thinks(model)):
        del fields["thinking"]
        losses.add("reasoning")
    elif thinking and thinks_adaptively(model):
        fields["thinking"] = ADAPTIVE
        output = _decode(members.get("outputConfig", b"{}"))
        members["outputConfig"] = Raw(_encode({**output, "effort": adaptive_effort(thinking)}))
    if not is_claude and fields.pop("top_k", None) is not None:
        losses.add("top_k")
    if fields:
        members[_FIELDS] = Raw(_encode(fields))
    else:
        del members[_FIELDS]


def _move_into_last_result(message: dict[str, Any]) -> dict[str, Any]:
    """The message, with all blocks that are not results moved into the last result."""
    results = [block for block in message["content"] if "toolResult" in block]
    others = [block for block in message["content"] if "toolResult" not in block]
    if not results or not others:
        return message
    last_result = results[-1]["toolResult"]
    results[-1] = {"toolResult": {**last_result, "content": [*last_result.get("content", ()), *others]}}
    return {**message, "content": results}
