"""Items of OpenAI Responses: their heads, ids, calls and nested tools. Pure module.

Items come from clients and models and are not trusted.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.wire import call_ids
from fairlead_formats.wire.protocol import InnerCall
from fairlead_formats.wire.raw_json import decode_object

CALL: Final = "function_call"
OUTPUT: Final = "function_call_output"
CUSTOM_CALL: Final = "custom_tool_call"
REASONING: Final = "reasoning"
REFERENCE: Final = "item_reference"
APPROVAL_REQUEST: Final = "mcp_approval_request"
COMPACTION_ITEM: Final = "compaction"
"""Type of the encrypted item that replaces earlier answers (`POST /v1/responses/compact`)."""
CLIENT_TOOLS: Final[Mapping[str, str]] = {
    "computer": "computer_call",
    "computer_use_preview": "computer_call",
    "local_shell": "local_shell_call",
    "shell": "shell_call",
    "apply_patch": "apply_patch_call",
    "tool_search": "tool_search_call",
    "mcp": APPROVAL_REQUEST,
}
"""Maps types of tools that the client runs to the types of items with their calls."""
_CLIENT_CALL_TYPES: Final = frozenset(CLIENT_TOOLS.values())
_OUTPUT_SUFFIXES: Final = ("_output", "mcp_approval_response")
FOREIGN_REASONING: Final = "rs_fairlead_"
"""Prefix of ids of reasoning items from another family's model. Clients see these items; providers do not."""
_RESPONSE: Final = "resp"
_NONCE: Final = r"[0-9a-f]{48}"
"""Random part of the ids of the gateway's responses."""
_MARK: Final = ".fairlead-"
_MARK_PATTERN: Final = re.compile(rf"\.fairlead-({_NONCE})-[0-9]+\Z")
_GATEWAY_ID: Final = re.compile(rf"[a-z]+(?:_fairlead)?_({_NONCE})(?:_.*)?", re.DOTALL)
_FUNCTION_TYPES: Final = ("function", "custom")
MAX_NESTED: Final = 256
"""Maximum number of nested tools whose names are read."""
encode: Final = msgspec.json.Encoder().encode
members_of: Final = msgspec.json.Decoder(dict[str, Raw]).decode
raws: Final = msgspec.json.Decoder(list[Raw]).decode


class ItemHead(msgspec.Struct):
    """Members that tell what an item is."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    role: str | None = None
    namespace: str | None = None
    status: str | None = None

    @property
    def kind(self) -> str:
        """Type of the item; messages may omit it."""
        return self.type or "message"

    @property
    def is_call(self) -> bool:
        """Whether the item calls a function outside of a namespace. Only such a function may be the gateway's."""
        return self.type == CALL and not self.namespace

    @property
    def is_foreign_reasoning(self) -> bool:
        """Whether the item is reasoning of another family's model."""
        return self.type == REASONING and (self.id or "").startswith(FOREIGN_REASONING)

    @property
    def is_from_model(self) -> bool:
        """Whether a model wrote the item."""
        if self.kind == "message":
            return self.role == "assistant"
        return not self.kind.endswith(_OUTPUT_SUFFIXES) and self.kind != REFERENCE


_decode_head: Final = msgspec.json.Decoder(ItemHead).decode


def head_of(raw: bytes | Raw) -> ItemHead:
    """Decode the head of an item. JSON that is not an item gets the type `unknown`."""
    try:
        return _decode_head(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ItemHead("unknown")


def new_id(prefix: str) -> str:
    """A new random id, which cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(24)}"


def new_response_id() -> str:
    """A new id of a response."""
    return new_id(_RESPONSE)


def nonce_of(response_id: str) -> str:
    """Random part of a response's id, which is also a part of the ids of its items."""
    return response_id.removeprefix(f"{_RESPONSE}_")


def mark_id(ident: str, mark: str) -> str:
    """The client's id of an item: the provider's id with `mark`, which names the response and the round.

    The gateway finds stored turns and stored responses by the mark. So the mark is random: a provider's id might be
    guessed.
    """
    return f"{ident}{_MARK}{mark}"


def unmark_id(ident: str) -> str:
    """The provider's id of an item, from the client's id."""
    return _MARK_PATTERN.sub("", ident)


def response_id_of(ident: str) -> str | None:
    """Id of the response that an item of the gateway belongs to; None for ids that the gateway did not make."""
    match = _MARK_PATTERN.search(ident) or _GATEWAY_ID.fullmatch(ident)
    return None if match is None else f"{_RESPONSE}_{match[1]}"


def unmark_ids(items: Sequence[bytes | Raw]) -> Sequence[bytes | Raw]:
    """The items with the provider's ids, or `items` itself if no id has a mark. If a provider used an id twice, the
    second item keeps its mark, because an API may refuse two items with one id.
    """
    if not any(_MARK.encode() in bytes(item) for item in items):
        return items
    provider_items: list[bytes | Raw] = []
    earlier_ids: set[str] = set()
    for raw in items:
        client_id = head_of(raw).id or ""
        ident = unmark_id(client_id)
        ident = client_id if ident in earlier_ids else ident
        earlier_ids.add(ident)
        provider_items.append(raw if ident == client_id else encode({**members_of(raw), "id": ident}))
    return provider_items


def waiting_calls(items: Sequence[bytes | Raw]) -> list[dict[str, Any]]:
    """Calls of one answer that need a result: of functions, of custom tools, and of the provider's tools that the
    client runs, such as a shell. A call of a provider's tool is returned as a custom call, named after the type of its
    item.
    """
    heads = [head_of(raw) for raw in items]
    ids_with_output = {head.call_id for head in heads if head.kind.endswith("_output")}
    calls = []
    for head, raw in zip(heads, items, strict=True):
        if head.kind in (CALL, CUSTOM_CALL):
            calls.append(decode_object(raw))
        elif head.kind in _CLIENT_CALL_TYPES and head.call_id not in ids_with_output and not _is_hosted(head, raw):
            calls.append({"type": CUSTOM_CALL, "call_id": head.call_id or head.id, "name": head.kind, "input": ""})
    return calls


def _is_hosted(head: ItemHead, raw: bytes | Raw) -> bool:
    return head.kind == "tool_search_call" and decode_object(raw).get("execution") != "client"


def names_within(tool: Mapping[str, Any]) -> list[str]:
    """Names of the functions in a namespace tool, or in an item that loads tools."""
    nested_tools = tool.get("tools")
    tools = [tool for tool in nested_tools if isinstance(tool, dict)] if isinstance(nested_tools, list) else []
    names = [
        str(tool["name"]) for tool in tools if isinstance(tool.get("name"), str) and tool.get("type") in _FUNCTION_TYPES
    ]
    deeper_names = [name for tool in tools if tool.get("type") == "namespace" for name in names_within(tool)]
    return [*names, *deeper_names][:MAX_NESTED]


def message_text(item: Mapping[str, Any]) -> str:
    """The text of a message's content."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts if isinstance(part, dict))


def with_call_ids(items: Sequence[Raw]) -> list[Raw]:
    """The items. Each call without an id or with the id of an earlier call gets a new id: results are matched by id."""
    with_ids = []
    earlier_ids: set[str] = set()
    for raw in items:
        head = head_of(raw)
        if head.type == CALL and (not head.call_id or head.call_id in earlier_ids):
            raw = Raw(encode({**members_of(raw), "call_id": Raw(encode(call_ids.new_id()))}))
        elif head.type == CALL and head.call_id:
            earlier_ids.add(head.call_id)
        with_ids.append(raw)
    return with_ids


def unwrap_calls(items: Sequence[Raw], calls: Mapping[str, InnerCall]) -> list[Raw]:
    """The items; a call of `execute_tool` is replaced by the call that its arguments name. `calls`: by id."""
    provider_items = []
    for raw in items:
        head = head_of(raw)
        call = calls.get(head.call_id or "") if head.is_call else None
        if call is not None:
            members = {"name": Raw(encode(call.name)), "arguments": Raw(encode(call.arguments.decode()))}
            raw = Raw(encode({**members_of(raw), **members}))
        provider_items.append(raw)
    return provider_items


def drop_orphaned_reasoning(items: Sequence[bytes | Raw]) -> list[bytes | Raw]:
    """The items without each reasoning item that is not followed by an output of the model, which the API refuses. A
    reference counts as an output, because it may refer to an output.
    """
    if not any(b'"reasoning"' in bytes(item) for item in items):
        return [*items]
    heads = [*map(head_of, items), ItemHead("message", role="user")]
    precedes_output = [(head.is_from_model and head.kind != REASONING) or head.kind == REFERENCE for head in heads[1:]]
    return [
        item
        for item, head, is_followed in zip(items, heads, precedes_output, strict=False)
        if head.kind != REASONING or is_followed
    ]


def is_hidden(head: ItemHead, client_tools: Collection[str] | None) -> bool:
    """Whether an item is a call that the client does not receive, because its tool is not in `client_tools`. None: the
    client receives all calls.
    """
    return client_tools is not None and head.is_call and (head.name or "") not in client_tools
