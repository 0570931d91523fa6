"""Tools of type `mcp` that name servers of this gateway, and the items that show calls of their tools. Pure module.

The items have the form that OpenAI uses for MCP servers that it calls itself. Source: OpenAI's API reference, tool
`mcp`, items `mcp_list_tools`, `mcp_call`, `mcp_approval_request` and `mcp_approval_response`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import ModelCall
from fairlead_formats.providers.openai_responses.items import CALL, OUTPUT, encode, head_of, nonce_of
from fairlead_formats.providers.openai_responses.tools import ResponsesMessages
from fairlead_formats.wire.protocol import FinishedCall, RunningCall
from fairlead_formats.wire.raw_json import decode_object

SCHEME: Final = "fairlead"
"""Value of `server_url` for the gateway's server that `server_label` names, or for all its servers if the label is
missing or also `fairlead`. In `fairlead://NAME` the URL names the server, and the client may choose any label.
"""
LIST_ID: Final = "mcpl_fairlead"
CALL_ID: Final = "mcp_fairlead_"
"""Prefix of the ids of `mcp_call` items. The call's id follows, and is restored when the client returns the item."""
APPROVAL_ID: Final = "mcpr_fairlead_"
"""Prefix of approval ids. The random part of the response's id, `_` and the call's id follow. The random part is needed
because a call's id alone could be guessed.
"""
_RANDOM_PREFIX: Final = re.compile(r"[0-9a-f]{48}_")
_COPIED_MEMBERS: Final = ("name", "description")
"""Members of a tool definition that a `mcp_list_tools` item contains unchanged."""


class _Names(msgspec.Struct, rename={"names": "tool_names"}):
    names: tuple[str, ...] | None = None
    read_only: bool | None = None


class _Approval(msgspec.Struct):
    always: _Names | None = None
    never: _Names | None = None


class McpTool(msgspec.Struct, tag_field="type", tag="mcp"):
    """A client's tool of type `mcp`, which stands for all tools of an MCP server."""

    server_label: str = ""
    server_url: str | None = None
    allowed_tools: tuple[str, ...] | _Names | None = None
    require_approval: str | _Approval | None = None

    @property
    def server(self) -> str | None:
        """Name of the gateway's server that the tool stands for; empty for all its servers, None for a server that is
        not the gateway's.
        """
        url = self.server_url or ""
        if url == SCHEME:
            return "" if self.server_label == SCHEME else self.server_label
        scheme, mark, name = url.partition("://")
        return name.strip("/") if mark and scheme == SCHEME else None

    def server_tool_choice(self) -> dict[str, Any]:
        """The tool as `offers.ServerToolChoice`, whose `asks` is for the tools in neither `always` nor `never`."""
        allowed_tools = self.allowed_tools
        names = (
            allowed_tools
            if isinstance(allowed_tools, tuple)
            else None
            if allowed_tools is None
            else allowed_tools.names
        )
        choice: dict[str, Any] = {"server": self.server, "asks": self.require_approval != "never"}
        if names is not None:
            choice["names"] = names
        if isinstance(allowed_tools, _Names) and allowed_tools.read_only:
            choice["readOnly"] = True
        if isinstance(self.require_approval, _Approval):
            for member, names_filter in (
                ("always", self.require_approval.always),
                ("never", self.require_approval.never),
            ):
                if names_filter is not None:
                    choice[member] = {"names": names_filter.names or (), "readOnly": bool(names_filter.read_only)}
            # with `always` alone, calls of all other tools need no approval
            choice["asks"] = self.require_approval.never is not None or self.require_approval.always is None
        return choice


def label_of(labels: Mapping[str, str], name: str) -> str:
    """The client's label for a tool's server. `name`: exposed name of the tool. `labels`: maps servers to labels."""
    server = name.partition("__")[0]
    return labels.get(server) or labels.get("") or SCHEME


def list_item(labels: Mapping[str, str], definitions: Sequence[bytes], response_id: str) -> Raw:
    """The `mcp_list_tools` item, with the tools that the model received. Its id names the response."""
    tools = []
    label = next(iter(labels.values())) if len(labels) == 1 else SCHEME
    for tool in map(decode_object, definitions):
        entry: dict[str, Any] = {name: tool[name] for name in _COPIED_MEMBERS if name in tool}
        tools.append({**entry, "input_schema": tool.get("parameters") or {}, "annotations": None})
    ident = f"{LIST_ID}_{nonce_of(response_id)}"
    return Raw(encode({"type": "mcp_list_tools", "id": ident, "server_label": label, "tools": tools, "error": None}))


def running_item(labels: Mapping[str, str], call: RunningCall, approval_id: str | None) -> dict[str, Any]:
    """The item of a call that the gateway runs. `approval_id`: id of the approval request; None if none was needed."""
    return {
        "type": "mcp_call",
        "id": CALL_ID + call.id,
        "approval_request_id": approval_id,
        "arguments": call.arguments.decode("utf-8", "replace"),
        "error": None,
        "name": call.name,
        "output": None,
        "server_label": label_of(labels, call.name),
        "status": "in_progress",
    }


def outcome_of(call: FinishedCall) -> dict[str, Any]:
    """Members of an `mcp_call` item that depend on the result of the call."""
    if call.result.get("isError"):
        error = {"type": "mcp_tool_execution_error", "content": call.result.get("content")}
        return {"error": error, "status": "failed"}
    model_call = ModelCall(call.id, call.name, {})
    messages = ResponsesMessages().write_results([model_call], [call.result]).messages
    output = next((message.get("output") for message in messages), "")
    return {"output": output if isinstance(output, str) else encode(output).decode(), "status": "completed"}


def call_start_events(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Type and members of the events that begin a call which the gateway runs. `item`: the item of the call."""
    position = {"item_id": item["id"]}
    yield "response.output_item.added", {"item": {**item, "arguments": ""}}
    yield "response.mcp_call.in_progress", position
    yield "response.mcp_call_arguments.delta", {**position, "delta": item["arguments"]}
    yield "response.mcp_call_arguments.done", {**position, "arguments": item["arguments"]}


def call_end_events(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Type and members of the events that end a call which the gateway ran. `item`: the item of the call."""
    yield f"response.mcp_call.{item['status']}", {"item_id": item["id"]}
    yield "response.output_item.done", {"item": item}


def client_call_events(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Type and members of the events of a call that the client runs or approves."""
    if item["type"] != CALL:
        yield "response.output_item.added", {"item": item}
        yield "response.output_item.done", {"item": item}
        return
    position, arguments = {"item_id": item.get("id")}, item["arguments"]
    yield "response.output_item.added", {"item": {**item, "arguments": "", "status": "in_progress"}}
    yield "response.function_call_arguments.delta", {**position, "delta": arguments}
    yield "response.function_call_arguments.done", {**position, "name": item.get("name"), "arguments": arguments}
    yield "response.output_item.done", {"item": item}


def list_events(item: Raw) -> Iterator[tuple[str, dict[str, Any]]]:
    """Type and members of the events of a list of tools."""
    position = {"item_id": decode_object(item)["id"]}
    yield "response.output_item.added", {"item": {**decode_object(item), "tools": []}}
    yield "response.mcp_list_tools.in_progress", position
    yield "response.mcp_list_tools.completed", position
    yield "response.output_item.done", {"item": item}


def approval_id(response_id: str, call_id: str | None) -> str:
    """The id for the approval request of a call in a response."""
    return f"{APPROVAL_ID}{nonce_of(response_id)}_{call_id}"


def approval_request(labels: Mapping[str, str], raw: bytes | Raw, ident: str) -> Raw:
    """The item that requests the client's approval of a call."""
    call = decode_object(raw)
    name = str(call.get("name", ""))
    return Raw(
        encode(
            {
                "type": "mcp_approval_request",
                "id": ident,
                "arguments": call.get("arguments") or "{}",
                "name": name,
                "server_label": label_of(labels, name),
            }
        )
    )


def is_approval_request(raw: bytes | Raw) -> bool:
    """Whether an item requests approval of a call of the gateway."""
    return (head_of(raw).id or "").startswith(APPROVAL_ID)


def to_provider_items(raw: bytes | Raw) -> list[bytes | Raw]:
    """The items for the provider in place of an item that a client returns. An `mcp_call` becomes a call and its
    result, an approval request becomes a call, and a list of the gateway's tools is left out.
    """
    if b"fairlead_" not in bytes(raw):
        return [raw]
    head = head_of(raw)
    ident = head.id or ""
    if head.kind == "mcp_list_tools" and ident.startswith(LIST_ID):
        return []
    prefix = {"mcp_call": CALL_ID, "mcp_approval_request": APPROVAL_ID}.get(head.kind)
    if prefix is None or not ident.startswith(prefix):
        return [raw]
    item = decode_object(raw)
    call_id = ident.removeprefix(prefix)
    if prefix == APPROVAL_ID:
        call_id = _RANDOM_PREFIX.sub("", call_id, count=1) if _RANDOM_PREFIX.match(call_id) else call_id
    call = {"type": CALL, "call_id": call_id, "name": item.get("name"), "arguments": item.get("arguments") or "{}"}
    if head.kind != "mcp_call":
        return [encode(call)]
    output = item.get("output")
    if not isinstance(output, str):
        output = f"Error: {_error_text(item.get('error'))}"
    return [encode(call), output_item(call_id, output)]


def output_item(call_id: str, output: str) -> bytes:
    """The result item of a call."""
    return encode({"type": OUTPUT, "call_id": call_id, "output": output})


def _error_text(error: object) -> str:
    if isinstance(error, dict):
        content = error.get("content") or error.get("message")
        if isinstance(content, list):
            return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        return str(content)
    return str(error or "the call failed")
