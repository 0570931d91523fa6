"""Translation of a client's tools to the provider's form, and of calls of custom tools back. Pure module.

Custom tools are OpenAI's (API reference, tools of type `custom`): their input is text, which OpenAI can constrain by a
grammar. Other families get a function with one text argument, whose description contains the grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import CUSTOM, INPUT, InvalidCall, ModelCall, freeform, items, member, text_of
from fairlead_formats.neutral.conversation import WRAPPED
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.providers.openai_chat.translation.members_of_both_apis import flatten, nest
from fairlead_formats.registry import OPENAI_CHAT, OPENAI_RESPONSES, find
from fairlead_formats.tool_format import Action
from fairlead_formats.tools.between import between
from fairlead_formats.wire.protocol import TranslationLosses

_KEYWORDS_WITHOUT_EFFECT = frozenset({"title", "$schema", "examples", "default"})
"""Keywords that do not affect calls, so their loss is not reported."""
GRAMMAR_LOSS: Final = "tools.format"
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def translate_tools(tools: object, source: str, target: str, losses: TranslationLosses) -> TranslatedTools:
    """The tools of a request in the form of `target`. Each keyword that loses meaning is reported by name."""
    if not tools:
        return TranslatedTools([], {})
    functions, custom = replace_custom_tools(tools, source, losses)
    conversion = between(functions, find(source), find(target))
    for loss in conversion.report:
        if loss.action is Action.REFUSED:
            losses.add("tools.refused")
        elif loss.lossy and loss.keyword not in _KEYWORDS_WITHOUT_EFFECT:
            losses.add(f"tools.{loss.keyword}")
    properties = {conversion.names[name]: names for name, names in conversion.properties.items()}
    return TranslatedTools(conversion.tools, conversion.names, custom, properties)


def replace_custom_tools(tools: object, source: str, losses: TranslationLosses) -> tuple[object, frozenset[str]]:
    """The tools of a request with functions in place of custom tools, and the names of the custom tools. A grammar is
    reported as lost, because the provider does not enforce it.
    """
    if source not in (OPENAI_CHAT, OPENAI_RESPONSES) or not isinstance(tools, list):
        return tools, frozenset()
    names: set[str] = set()

    def function(tool: object) -> object:
        if member(tool, "type") == "namespace":
            return {**_members(tool), "tools": [*map(function, items(member(tool, "tools")))]}
        if member(tool, "type") != CUSTOM:
            return tool
        members = _members(flatten(tool))
        names.add(text_of(members.get("name")))
        description = _describe_input(members.pop("format", None), losses)
        schema = {"type": "object", "properties": {INPUT: {"type": "string", **description}}, "required": [INPUT]}
        function_tool = {**members, "type": "function", "parameters": {**schema, "additionalProperties": False}}
        return nest(function_tool) if source == OPENAI_CHAT else function_tool

    return [*map(function, tools)], frozenset(names)


def _describe_input(form: object, losses: TranslationLosses) -> dict[str, str]:
    """The description of the text argument with its grammar, if any. Chat Completions nest the grammar in a member."""
    grammar = flatten(form)
    definition = member(grammar, "definition")
    if not isinstance(definition, str):
        return {}
    losses.add(GRAMMAR_LOSS)
    syntax = text_of(member(grammar, "syntax")) or "grammar"
    return {"description": f"Text that this {syntax} matches, and nothing else:\n{definition}"}


def custom_call(call: ModelCall) -> ModelCall:
    """The call of a custom tool, from a call of the function that replaces the tool at the provider."""
    return msgspec.structs.replace(call, kind=CUSTOM, arguments=freeform(_text(call.arguments)))


def custom_input(arguments: str) -> str:
    """The text of a custom tool call, from the arguments of its function."""
    try:
        return _text(_decode(arguments))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return arguments  # plain text: some models write the form that they learned for this tool, not JSON


def _text(arguments: object) -> str:
    if isinstance(arguments, InvalidCall):
        return arguments.text
    text = member(arguments, INPUT, WRAPPED)
    return text if isinstance(text, str) else _encode(arguments).decode()


def _members(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
