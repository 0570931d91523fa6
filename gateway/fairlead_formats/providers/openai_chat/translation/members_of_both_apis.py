"""Members of requests that both of OpenAI's APIs have: flat in Responses; in Chat Completions all but `type` is in a
member of the type's name. Pure module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.conversation import OutputSchema, SamplingSettings, ToolChoice
from fairlead_formats.neutral.tools import TranslatedTools

SHARED: Final = ("metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier")
"""Settings that mean the same in both."""
_PLAIN: Final = re.compile(r"(?:^|[/.:])(?:gpt-(?:3|4)|chatgpt-)")


def read_choice(given: object) -> ToolChoice | None:
    """A choice of tools, in either form."""
    if given in ("auto", "none", "required"):
        return ToolChoice(given)
    choice = flatten(given)
    kind, name = member(choice, "type"), member(choice, "name")
    if kind == "allowed_tools":
        named = (member(flatten(tool), "name") for tool in items(member(choice, "tools")))
        names = tuple(each for each in named if isinstance(each, str))
        return ToolChoice("required" if member(choice, "mode") == "required" else "auto", names)
    return ToolChoice("required", (name,)) if kind in ("function", "custom") and isinstance(name, str) else None


def write_choice(choice: ToolChoice, *, nests: bool) -> Any:
    """A choice of tools; `nests`: as Chat Completions have it."""
    if not choice.names:
        return choice.mode
    form = nest if nests else dict
    named = [form({"type": "function", "name": name}) for name in choice.names]
    if choice.mode == "required" and len(named) == 1:
        return named[0]
    mode = "auto" if choice.mode == "none" else choice.mode
    return form({"type": "allowed_tools", "mode": mode, "tools": named})


def read_output(given: object) -> OutputSchema | None:
    """The form of the answer, in either form."""
    output = flatten(given)
    kind, schema = member(output, "type"), member(output, "schema")
    if kind == "json_object":
        return OutputSchema(None)
    if kind != "json_schema" or not isinstance(schema, dict):
        return None
    return OutputSchema(schema, text_of(member(output, "name")) or "answer", member(output, "strict"))


def write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    """The form of the answer, as Responses have it; None where any will do."""
    if output is None:
        return None
    if output.schema is None:
        return {"type": "json_object"}
    strict = {} if output.strict is None else {"strict": output.strict}
    return {"type": "json_schema", "name": output.name, "schema": output.schema, **strict}


def write_tools(
    tools: TranslatedTools, choice: ToolChoice | None, settings: SamplingSettings, *, nests: bool
) -> dict[str, Any]:
    """Members that say which tools there are, and which of them the model may call."""
    body: dict[str, Any] = {}
    if tools.definitions:
        body["tools"] = tools.definitions
        if settings.parallel is not None:
            body["parallel_tool_calls"] = settings.parallel
    if choice is not None:
        body["tool_choice"] = write_choice(choice, nests=nests)
    return body


def plain_model(model: str) -> bool:
    """Whether a model is one of OpenAI's that do not reason."""
    return _PLAIN.search(model) is not None


def flatten(given: object) -> object:
    """A member of Chat Completions as Responses have it."""
    kind = text_of(member(given, "type"))
    inner = member(given, kind) if kind else None
    return {**inner, "type": kind} if isinstance(inner, dict) else given


def nest(given: Mapping[str, Any]) -> dict[str, Any]:
    """A member of Responses as Chat Completions have it."""
    inner = {name: value for name, value in given.items() if name != "type"}
    return {"type": given["type"], given["type"]: inner} if inner else dict(given)
