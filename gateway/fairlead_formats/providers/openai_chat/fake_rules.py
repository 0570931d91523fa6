"""Requests that the scripted Chat Completions API rejects, and the checks of tools that it shares with Responses.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.openai_chat.definition_rules import function_faults
from fairlead_formats.providers.openai_chat.request_rules import CHAT_RULES
from fairlead_formats.request_rules.rule import ApiRules, BrokenRule, SchemaCheck

MAX_TOOLS: Final = 128
MAX_TOOL_NAME: Final = 64
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_SETTINGS: Final = ("tool_choice", "parallel_tool_calls")
_CALLS: Final = ("tool_calls", "function_call")


def fault(request: Mapping[str, Any], check_schema: SchemaCheck) -> BrokenRule | None:
    """The first rule that a request breaks; None if it breaks none."""
    return next(_faults(request, check_schema), None)


def _faults(request: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    if "fairlead" in request:
        yield CHAT_RULES.broken_rule("chat-member", name="fairlead")
    messages: Sequence[Mapping[str, Any]] = request.get("messages") or ()
    if not messages:
        yield CHAT_RULES.broken_rule("chat-messages")
    tools = request.get("tools")
    if tools is not None and not tools:
        yield CHAT_RULES.broken_rule("chat-tools-empty")
    for member in _TOOL_SETTINGS:
        if request.get(member) is not None and not tools:
            yield CHAT_RULES.broken_rule("chat-choice-without-tools", name=member)
    if request.get("functions") is not None and not request["functions"]:
        yield CHAT_RULES.broken_rule("chat-functions-empty")
    if request.get("function_call") is not None and not request.get("functions"):
        yield CHAT_RULES.broken_rule("chat-choice-without-functions")
    functions = [(index, tool.get("function") or {}) for index, tool in enumerate(tools or ()) if _is_function(tool)]
    yield from tool_faults(CHAT_RULES, functions, len(tools or ()), check_schema)
    tool_names = {(tool.get(str(tool.get("type"))) or {}).get("name") for tool in tools or ()}
    for name in _chosen_names(request.get("tool_choice")):
        if tools and name not in tool_names:
            yield CHAT_RULES.broken_rule("chat-tool-choice", name=name)
    yield from message_faults(messages)


def _is_function(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") == "function"


def _chosen_names(choice: object) -> Iterator[object]:
    """Names of tools in `tool_choice`."""
    if not isinstance(choice, Mapping):
        return
    kind = choice.get("type")
    if kind == "allowed_tools":
        for tool_choice in (choice.get("allowed_tools") or {}).get("tools") or ():
            yield from _chosen_names(tool_choice)
    elif kind in ("function", "custom"):
        yield (choice.get(kind) or {}).get("name")


def tool_faults(
    api: ApiRules, functions: Sequence[tuple[int, Mapping[str, Any]]], count: int, check_schema: SchemaCheck
) -> Iterator[BrokenRule]:
    """Rules about tools that a request breaks. `functions`: the members of each function, with its index in `tools`;
    `count`: number of tools of all types; `api`: rules of the API.
    """
    if count > MAX_TOOLS:
        yield api.broken_rule(f"{api.prefix}-tool-count", length=count)
    for index, function in functions:
        name = str(function.get("name", ""))
        if not _TOOL_NAME.fullmatch(name):
            yield api.broken_rule(f"{api.prefix}-tool-name", index=index, name=name)
        if len(name) > MAX_TOOL_NAME:
            yield api.broken_rule(f"{api.prefix}-tool-name-length", index=index, length=len(name))
        yield from function_faults(api, function, check_schema, index)
    for name, name_count in Counter(str(function.get("name")) for _, function in functions).items():
        if name_count > 1:
            yield api.broken_rule(f"{api.prefix}-tool-names-unique", name=name)


def message_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[BrokenRule]:
    """Rules about messages that a request breaks: each call needs one result, directly after the call's message."""
    call_indexes: dict[str, int] = {}
    result_indexes: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            ident = str(message.get("tool_call_id"))
            if ident not in call_indexes:
                yield CHAT_RULES.broken_rule("chat-tool-message", index=index)
            if ident in result_indexes:
                yield CHAT_RULES.broken_rule("chat-call-ids-unique", id=ident, first=result_indexes[ident], index=index)
            result_indexes[ident] = index
            continue
        yield from _missing_outputs(call_indexes, result_indexes, index)
        call_indexes, result_indexes = {}, {}
        if message.get("role") != "assistant":
            continue
        for call in message.get("tool_calls") or ():
            if call["id"] in call_indexes:
                yield CHAT_RULES.broken_rule("chat-call-ids-unique", id=call["id"], first=index, index=index)
            call_indexes[call["id"]] = index
        if not any(message.get(member) for member in (*_CALLS, "refusal", "audio")) and message.get("content") is None:
            yield CHAT_RULES.broken_rule("chat-content", index=index)
    yield from _missing_outputs(call_indexes, result_indexes, len(messages))


def _missing_outputs(
    call_indexes: Mapping[str, int], result_indexes: Mapping[str, int], index: int
) -> Iterator[BrokenRule]:
    missing_ids = call_indexes.keys() - result_indexes.keys()
    if missing_ids:
        yield CHAT_RULES.broken_rule("chat-missing-output", index=index, ids=", ".join(sorted(missing_ids)))
