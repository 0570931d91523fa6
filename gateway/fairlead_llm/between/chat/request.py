"""Requests of Chat Completions, read and written. Pure module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from fairlead_formats.messages.drafts import items, member, text_of
from fairlead_llm.between.chat.messages import read_messages, write_messages
from fairlead_llm.between.conversation import (
    MessageTurn,
    NeutralRequest,
    OutputSchema,
    SamplingSettings,
    TextPart,
    ToolChoice,
    as_effort,
    effort_of,
)
from fairlead_llm.between.losses import TranslationLosses
from fairlead_llm.between.members import RequestMembers, required_list
from fairlead_llm.between.tools_for import TranslatedTools
from fairlead_llm.wire import BadRequest

SHARED: Final = ("metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier")
"""Settings that mean the same in Chat Completions and in Responses."""
_OPENAI: Final = re.compile(r"(?:^|[/.:])(?:gpt-|o\d|chatgpt-)")
_PLAIN: Final = re.compile(r"(?:^|[/.:])(?:gpt-(?:3|4)|chatgpt-)")
_MAX: Final = "max_tokens"


def read_request(
    body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses
) -> NeutralRequest:
    """A request. Raises BadRequest."""
    members = RequestMembers(body, losses)
    named = members.text("model")
    if named is None:
        raise BadRequest("model: give a name", "model")
    members.refuse("functions", "this form of before `tools` does not go to a provider of another kind; use `tools`")
    members.without("function_call", "fairlead", "store", "stream_obfuscation")
    if (members.whole("n") or 1) != 1:
        losses.add("n")
    turns = read_messages(required_list(members, "messages"), losses)
    leading = next((place for place, turn in enumerate(turns) if turn.role != "system"), len(turns))
    streams = bool(members.flag("stream"))
    include_usage = member(members.any("stream_options"), "include_usage") is True
    tools, choice = members.any("tools"), _choice(members.any("tool_choice"))
    settings = _settings(members)
    members.report_rest()
    return NeutralRequest(
        model=named, stream=streams, system=tuple(map(_text, turns[:leading])), turns=turns[leading:], tools=tools,
        choice=choice, settings=settings, include_usage=include_usage,
    )  # fmt: skip


def _text(turn: MessageTurn) -> str:
    return "\n\n".join(part.text for part in turn.parts if isinstance(part, TextPart))


def _settings(members: RequestMembers) -> SamplingSettings:
    openai_only = members.named(*SHARED, "verbosity")
    return SamplingSettings(
        max_tokens=members.whole("max_completion_tokens", _MAX),
        temperature=members.number("temperature"),
        top_p=members.number("top_p"),
        seed=members.whole("seed"),
        frequency_penalty=members.number("frequency_penalty"),
        presence_penalty=members.number("presence_penalty"),
        stop=members.texts("stop"),
        effort=as_effort(members.any("reasoning_effort")),
        parallel=members.flag("parallel_tool_calls"),
        user=members.text("user"),
        output=_output(members.any("response_format")),
        openai_only=openai_only,
    )


def _output(given: object) -> OutputSchema | None:
    kind = member(given, "type")
    if kind == "json_object":
        return OutputSchema(None)
    found = member(given, "json_schema")
    if kind != "json_schema" or not isinstance(member(found, "schema"), dict):
        return None
    return OutputSchema(found["schema"], text_of(member(found, "name")) or "answer", member(found, "strict"))


def _choice(given: object) -> ToolChoice | None:
    if given in ("auto", "none", "required"):
        return ToolChoice(given)
    kind = member(given, "type")
    if kind in ("function", "custom"):
        name = member(member(given, kind), "name")
        return ToolChoice("required", (name,)) if isinstance(name, str) else None
    allowed = member(given, "allowed_tools")
    if isinstance(allowed, dict):
        named = (member(member(tool, "function", "custom"), "name") for tool in items(allowed.get("tools")))
        names = tuple(name for name in named if isinstance(name, str))
        return ToolChoice("required" if allowed.get("mode") == "required" else "auto", names)
    return None


def write_request(
    asked: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses
) -> dict[str, Any]:
    """The body for a provider."""
    settings = asked.settings
    system = [{"role": "system", "content": text} for text in asked.system if text]
    body: dict[str, Any] = {
        "model": asked.model, "messages": [*system, *write_messages(asked.turns, losses).messages],
    }  # fmt: skip
    if asked.stream:
        body["stream"] = True
    if tools.definitions:
        body["tools"] = tools.definitions
        if settings.parallel is not None:
            body["parallel_tool_calls"] = settings.parallel
    if choice is not None:
        body["tool_choice"] = _written_choice(choice)
    known = {
        _MAX: settings.max_tokens, "temperature": settings.temperature, "top_p": settings.top_p, "seed": settings.seed,
        "frequency_penalty": settings.frequency_penalty, "presence_penalty": settings.presence_penalty,
        "stop": list(settings.stop) or None, "reasoning_effort": _effort(settings), "user": settings.user,
        "response_format": _written_output(settings.output),
    }  # fmt: skip
    body |= {name: value for name, value in known.items() if value is not None}
    body |= settings.openai_only
    if settings.top_k is not None:
        losses.add("top_k")
    return body


def _effort(settings: SamplingSettings) -> str | None:
    return settings.effort if settings.budget is None else effort_of(settings.budget)


def _written_choice(choice: ToolChoice) -> Any:
    if not choice.names:
        return choice.mode
    named = [{"type": "function", "function": {"name": name}} for name in choice.names]
    if choice.mode == "required" and len(named) == 1:
        return named[0]
    mode = "auto" if choice.mode == "none" else choice.mode
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}


def _written_output(output: OutputSchema | None) -> dict[str, Any] | None:
    if output is None:
        return None
    if output.schema is None:
        return {"type": "json_object"}
    found: dict[str, Any] = {"name": output.name, "schema": output.schema}
    if output.strict is not None:
        found["strict"] = output.strict
    return {"type": "json_schema", "json_schema": found}


def settle(members: dict[str, Raw], model: str, losses: TranslationLosses) -> None:
    """Name the bound of tokens as the model's API does: OpenAI's newer models refuse `max_tokens`, older servers that
    are compatible know nothing else. Reasoning is left out for models that refuse to hear of it.
    """
    if _MAX in members and _OPENAI.search(model):
        members["max_completion_tokens"] = members.pop(_MAX)
    if "reasoning_effort" in members and plain_model(model):
        losses.add("reasoning")
        del members["reasoning_effort"]


def plain_model(model: str) -> bool:
    """Whether a model is one of OpenAI's that do not reason."""
    return _PLAIN.search(model) is not None
