"""Request members that OpenAI's Chat Completions and Responses APIs share, in a flat or a nested form. Pure module.

The Responses API has flat objects: `{type: function, name}`. Chat Completions nests all members except `type` in a
member with the name of the type: `{type: function, function: {name}}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.conversation import OutputSchema, SamplingSettings, ToolChoice
from fairlead_formats.neutral.tools import TranslatedTools

SHARED_SETTINGS: Final = ("metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier")
"""Settings with the same meaning in both APIs."""
_MODELS_WITHOUT_REASONING: Final = re.compile(r"(?:^|[/.:])(?:gpt-(?:3|4)|chatgpt-)")


def read_choice(value: object) -> ToolChoice | None:
    """Read `tool_choice`, in either form."""
    if value in ("auto", "none", "required"):
        return ToolChoice(value)
    choice = flatten(value)
    kind, name = member(choice, "type"), member(choice, "name")
    if kind == "allowed_tools":
        tool_names = (member(flatten(tool), "name") for tool in items(member(choice, "tools")))
        names = tuple(tool_name for tool_name in tool_names if isinstance(tool_name, str))
        return ToolChoice("required" if member(choice, "mode") == "required" else "auto", names)
    return ToolChoice("required", (name,)) if kind in ("function", "custom") and isinstance(name, str) else None


def write_choice(choice: ToolChoice, *, nests: bool) -> Any:
    """Write `tool_choice`. `nests`: whether to write the nested form of Chat Completions."""
    if not choice.names:
        return choice.mode
    form = nest if nests else dict
    tools = [form({"type": "function", "name": name}) for name in choice.names]
    if choice.mode == "required" and len(tools) == 1:
        return tools[0]
    mode = "auto" if choice.mode == "none" else choice.mode
    return form({"type": "allowed_tools", "mode": mode, "tools": tools})


def read_output(value: object) -> OutputSchema | None:
    """Read the output format, in either form."""
    output = flatten(value)
    kind, schema = member(output, "type"), member(output, "schema")
    if kind == "json_object":
        return OutputSchema(None)
    if kind != "json_schema" or not isinstance(schema, dict):
        return None
    return OutputSchema(schema, text_of(member(output, "name")) or "answer", member(output, "strict"))


def write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    """Write the output format in the flat form; None if the request sets none."""
    if output is None:
        return None
    if output.schema is None:
        return {"type": "json_object"}
    strict = {} if output.strict is None else {"strict": output.strict}
    return {"type": "json_schema", "name": output.name, "schema": output.schema, **strict}


def write_tools(
    tools: TranslatedTools, choice: ToolChoice | None, settings: SamplingSettings, *, nests: bool
) -> dict[str, Any]:
    """Request members with tool definitions and the choice of tools. `nests`: whether to write the nested form."""
    body: dict[str, Any] = {}
    if tools.definitions:
        body["tools"] = tools.definitions
        if settings.parallel is not None:
            body["parallel_tool_calls"] = settings.parallel
    if choice is not None:
        body["tool_choice"] = write_choice(choice, nests=nests)
    return body


def refuses_reasoning(model: str) -> bool:
    """Whether a model is an OpenAI model that does not reason and therefore refuses reasoning settings."""
    return _MODELS_WITHOUT_REASONING.search(model) is not None


def flatten(value: object) -> object:
    """The flat form (Responses) of a nested object."""
    kind = text_of(member(value, "type"))
    nested_members = member(value, kind) if kind else None
    return {**nested_members, "type": kind} if isinstance(nested_members, dict) else value


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The nested form (Chat Completions) of a flat object."""
    nested_members = {name: value for name, value in flat.items() if name != "type"}
    return {"type": flat["type"], flat["type"]: nested_members} if nested_members else dict(flat)
