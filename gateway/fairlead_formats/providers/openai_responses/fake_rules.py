"""Requests that the scripted Responses API rejects.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.providers.openai_chat.fake_rules import tool_faults
from fairlead_formats.providers.openai_responses.request_rules import RESPONSES_RULES
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck

_PREFIXES: Final = {"compaction": "cmp", "function_call": "fc", "message": "msg", "reasoning": "rs"}
_MAX_CALL_ID: Final = 64
_ENCRYPTED_PREFIX: Final = "sealed-"
_OUTPUT: Final = re.compile(r"\w+_output")

Item = Mapping[str, Any]


def encrypted_content(number: int) -> str:
    """Encrypted content of the reasoning in the answer with this number."""
    return f"{_ENCRYPTED_PREFIX}{number}"


class StoredItems(msgspec.Struct):
    """Earlier answers of one API."""

    responses: dict[str, tuple[dict[str, Any], list[Any]]] = {}
    """Maps the id of a response to the response and its input items."""
    reasoning: dict[str, str] = {}
    """Maps the id of a call to the id of the reasoning that led to the call."""

    def item(self, ident: str) -> Item | None:
        """The item with this id in the input or output of a stored response; None if no item has it."""
        items = (
            item for response, client_input in self.responses.values() for item in (*response["output"], *client_input)
        )
        return next((item for item in items if isinstance(item, dict) and item.get("id") == ident), None)


def fault(request: Mapping[str, Any], stored_items: StoredItems, check_schema: SchemaCheck) -> BrokenRule | None:
    """The first rule that a request breaks; None if it breaks none."""
    return next(_faults(request, stored_items, check_schema), None)


def _faults(request: Mapping[str, Any], stored_items: StoredItems, check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    if "fairlead" in request:
        yield RESPONSES_RULES.broken_rule("responses-member", name="fairlead")
    previous_id = request.get("previous_response_id")
    if previous_id is not None and request.get("conversation") is not None:
        yield RESPONSES_RULES.broken_rule("responses-conversation")
    if previous_id is not None and previous_id not in stored_items.responses:
        yield RESPONSES_RULES.broken_rule("responses-previous", id=previous_id)
        return
    yield from _tool_faults(request, check_schema)
    client_input = request.get("input")
    items = [item for item in (client_input if isinstance(client_input, list) else ()) if isinstance(item, dict)]
    earlier_items: list[Item] = stored_items.responses[previous_id][0]["output"] if previous_id is not None else []
    yield from _id_faults(items, earlier_items)
    resolved_items: list[Item] = []
    for item in items:
        if item.get("type") != "item_reference":
            resolved_items.append(item)
        elif (referenced_item := stored_items.item(item["id"])) is not None:
            resolved_items.append(referenced_item)
        elif "conversation" not in request:
            yield RESPONSES_RULES.broken_rule("responses-item-reference", id=item["id"])
    yield from _call_faults([*earlier_items, *resolved_items], has_conversation="conversation" in request)
    yield from _reasoning_faults(resolved_items, stored_items)


def _tool_faults(request: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    tools: Sequence[Mapping[str, Any]] = request.get("tools") or ()
    functions = [(index, tool) for index, tool in enumerate(tools) if tool.get("type") == "function"]
    yield from tool_faults(RESPONSES_RULES, functions, len(tools), check_schema)
    nested_tools = [
        nested_tool for tool in tools if tool.get("type") == "namespace" for nested_tool in tool.get("tools") or ()
    ]
    tool_names = {tool.get("name") for tool in (*tools, *nested_tools)}
    for name in _chosen_names(request.get("tool_choice")):
        if name not in tool_names:
            yield RESPONSES_RULES.broken_rule("responses-tool-choice", name=name)


def _chosen_names(choice: object) -> Iterator[object]:
    """Names of tools in `tool_choice`."""
    if not isinstance(choice, Mapping):
        return
    if choice.get("type") == "allowed_tools":
        for tool_choice in choice.get("tools") or ():
            yield from _chosen_names(tool_choice)
    elif choice.get("type") in ("function", "custom"):
        yield choice.get("name")


def _id_faults(items: Sequence[Item], earlier_items: Sequence[Item]) -> Iterator[BrokenRule]:
    for index, item in enumerate(items):
        prefix = _PREFIXES.get(item.get("type", "message"), "")
        if item.get("id") is not None and not str(item["id"]).startswith(prefix):
            yield RESPONSES_RULES.broken_rule("responses-item-id", index=index, id=item["id"], prefix=prefix)
        if len(str(item.get("call_id", ""))) > _MAX_CALL_ID:
            yield RESPONSES_RULES.broken_rule("responses-call-id-length", index=index, length=len(item["call_id"]))
    for ident, count in Counter(item["id"] for item in (*earlier_items, *items) if item.get("id") is not None).items():
        if count > 1:
            yield RESPONSES_RULES.broken_rule("responses-item-ids-unique", id=ident)


def _call_faults(items: Sequence[Item], *, has_conversation: bool) -> Iterator[BrokenRule]:
    """Faults of calls and their outputs. An id may be used again after its call has an output, because some providers
    number the calls of each answer from the beginning.
    """
    open_ids: set[str] = set()
    ids_with_output: set[str] = set()
    for item in items:
        ident = str(item.get("call_id"))
        if item.get("type") == "function_call":
            if ident in open_ids:
                yield RESPONSES_RULES.broken_rule("responses-call-ids-unique", id=ident)
            open_ids.add(ident)
        elif item.get("type") == "function_call_output":
            if ident not in open_ids and ident in ids_with_output:
                yield RESPONSES_RULES.broken_rule("responses-call-ids-unique", id=ident)
            elif ident not in open_ids and not has_conversation:
                yield RESPONSES_RULES.broken_rule("responses-output-without-call", id=ident)
            open_ids.discard(ident)
            ids_with_output.add(ident)
    for ident in sorted(open_ids):
        yield RESPONSES_RULES.broken_rule("responses-missing-output", id=ident)


def _reasoning_faults(items: Sequence[Item], stored_items: StoredItems) -> Iterator[BrokenRule]:
    ids = {item.get("id") for item in items}
    for item, next_item in zip(items, [*items, {}][1:], strict=True):
        ident, next_type = item.get("id"), str(next_item.get("type", "message"))
        if item.get("type") == "compaction" and not str(item.get("encrypted_content")).startswith(_ENCRYPTED_PREFIX):
            yield RESPONSES_RULES.broken_rule("responses-encrypted-content", id=ident)
        if item.get("type") == "reasoning":
            content = item.get("encrypted_content")
            if content is not None and not str(content).startswith(_ENCRYPTED_PREFIX):
                yield RESPONSES_RULES.broken_rule("responses-encrypted-content", id=ident)
            is_client_message = next_item.get("role") in ("user", "system", "developer")
            if not next_item or is_client_message or next_type == "reasoning" or _OUTPUT.fullmatch(next_type):
                yield RESPONSES_RULES.broken_rule("responses-reasoning-followed", id=ident)
        if stored_items.reasoning.get(str(ident), ident) not in ids:
            yield RESPONSES_RULES.broken_rule("responses-call-reasoning", id=ident)
