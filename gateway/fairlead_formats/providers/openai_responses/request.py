"""Requests of OpenAI Responses, read as raw members so that uninterpreted members reach the provider unchanged.

Pure module. Source: OpenAI's API reference, `POST /v1/responses`. Only the model that produced encrypted reasoning
accepts it, so `remove_thoughts` removes it from a request that goes to another model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.approvals import Approvals, fill_results
from fairlead_formats.providers.openai_responses.items import (
    CALL,
    CLIENT_TOOLS,
    CUSTOM_CALL,
    FOREIGN_REASONING,
    OUTPUT,
    REASONING,
    REFERENCE,
    drop_orphaned_reasoning,
    encode,
    head_of,
    members_of,
    names_within,
    new_response_id,
    nonce_of,
    unmark_ids,
)
from fairlead_formats.providers.openai_responses.mcp_tools import LIST_ID, McpTool
from fairlead_formats.providers.openai_responses.tool_choice import ChoiceOverRounds
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, FamilyRequest, reading_body
from fairlead_formats.wire.protocol import BadRequest, ModelRound
from fairlead_formats.wire.raw_json import array, decode_object

_FOREIGN_REASONING: Final = FOREIGN_REASONING.encode()
_REFERENCE: Final = REFERENCE.encode()
_NONE: Final = Raw(b'"none"')
_TOOL_LOADING_TYPES: Final = ("tool_search_output", "additional_tools")
"""Types of items that add tools to the request, in addition to the member `tools`."""
_raws: Final = msgspec.json.Decoder(list[Raw]).decode


class _ResponsesMembers(msgspec.Struct):
    model: str
    input: str | list[Raw] | None = None
    stream: bool | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = Raw(b"null")
    previous_response_id: str | None = None
    conversation: Any = None
    store: bool | None = None
    background: bool | None = None
    max_tool_calls: int | None = None
    fairlead: Raw = Raw(b"{}")


class _ToolHead(msgspec.Struct):
    type: str = ""
    name: str | None = None


_decode_request: Final = msgspec.json.Decoder(_ResponsesMembers).decode
_decode_tool: Final = msgspec.json.Decoder(_ToolHead).decode
_decode_mcp_tool: Final = msgspec.json.Decoder(McpTool).decode


class ResponsesRequest(FamilyRequest):
    """A client's request."""

    def __init__(self, body: bytes) -> None:
        """Raises BadRequest."""
        with reading_body():
            request_members = _decode_request(body)
            self._members = members_of(body)
            self._read_tools(request_members.tools or ())
            self._choice = ChoiceOverRounds(
                request_members.tool_choice, {tool.server_label: tool.server or "" for tool in self._servers}
            )
            self._options = members_of(request_members.fairlead)
        if request_members.background and request_members.stream:
            raise BadRequest("stream: a background response cannot be streamed; retrieve it by its id", "stream")
        self.model = request_members.model
        self.stream = bool(request_members.stream)
        self.no_injection = bool(request_members.background)  # the gateway does not wait for a background answer
        self.gateway_stores = True
        """Whether the gateway stores the response, so that later requests can continue it by its id."""
        self.previous_id = request_members.previous_response_id
        """The client's id of the response that this request continues."""
        conversation = (
            request_members.conversation.get("id")
            if isinstance(request_members.conversation, dict)
            else request_members.conversation
        )
        self.conversation: str | None = conversation if isinstance(conversation, str) else None
        self.provider_stores = request_members.store is not False
        """Whether the provider is to store the response."""
        self.gateway_options = self._write_options(request_members.max_tool_calls)
        self.response_id = new_response_id()
        """Id of the client's response to this request."""
        self._round = 0
        self._input = request_members.input
        self.references = _references(request_members.input) if _REFERENCE in body else ()
        """Ids of the items to which the input refers."""
        self.injected_tools: Sequence[bytes] = ()
        """Tool definitions that the gateway added to the client's tools in the last call of `body`."""
        self._members.pop(GATEWAY_MEMBER, None)
        self._read_items(())

    def _write_options(self, max_calls: int | None) -> Raw:
        """The member `fairlead` as JSON, with the options that other members set for the gateway's tools."""
        options = dict(self._options)
        if self._servers:
            options = {
                "showCalls": Raw(b"true"),
                **options,
                "mcp": Raw(encode([tool.server_tool_choice() for tool in self._servers])),
            }
        if max_calls is not None:
            options = {"maxCalls": Raw(encode(max(max_calls, 0))), **options}
        return Raw(encode(options))

    def _read_tools(self, tools: Sequence[Raw]) -> None:
        self.tools_member = self._members.get("tools", Raw(b"[]"))
        """The client's member `tools`, which the response to the client repeats."""
        self._servers: list[McpTool] = []
        """The client's tools that name servers of the gateway. They are not sent to the provider."""
        client_tools: list[Raw] = []
        names: set[str] = set()
        for raw in tools:
            head = _decode_tool(raw)
            server = _decode_mcp_tool(raw) if head.type == "mcp" and b"fairlead" in bytes(raw) else None
            if server is not None and server.server is not None:
                self._servers.append(server)
                continue
            client_tools.append(raw)
            nested_names = names_within(decode_object(raw)) if head.type == "namespace" else ()
            tool_name = head.name if head.type in ("function", "custom") else CLIENT_TOOLS.get(head.type)
            names.update(nested_names, [tool_name] if tool_name else ())
        self._tools = client_tools
        self._names = frozenset(names)

    def _read_items(self, pending_approvals: Sequence[bytes]) -> None:
        client_items = self._client_items()
        items = [
            item
            for item in client_items
            if _FOREIGN_REASONING not in bytes(item) or not head_of(item).is_foreign_reasoning
        ]
        approvals = Approvals(items, pending_approvals)
        loaded_names = [
            name
            for item in items
            if head_of(item).kind in _TOOL_LOADING_TYPES
            for name in names_within(decode_object(item))
        ]
        self.tool_names = frozenset([*self._names, *loaded_names])
        self.approved_calls = approvals.calls
        """Calls of the gateway's tools that this request approves."""
        self.approval_ids: Mapping[str, str] = approvals.ids
        """Maps ids of approved calls to ids of their approval requests."""
        self._placeholders = approvals.placeholders
        self.has_tool_list = any(b'"' + LIST_ID.encode() in bytes(item) for item in items)
        """Whether an earlier response listed the gateway's tools, so that this response need not list them."""
        self.client_messages = self.messages = approvals.items
        self._unchanged_input = None if approvals.changed or len(items) < len(client_items) else self.client_messages

    def new_mark(self) -> str:
        """A new mark, which ends the ids of the items in the next round's answer (`items.mark_id`)."""
        self._round += 1
        return f"{nonce_of(self.response_id)}-{self._round}"

    def resume(self, previous_id: str | None, pending_approvals: Sequence[bytes]) -> None:
        """Continue the response that the client knows as `previous_id`. `pending_approvals`: approval requests of that
        response.
        """
        self.previous_id = previous_id
        if pending_approvals:
            self._read_items(pending_approvals)

    def fill(self, results: Sequence[bytes]) -> None:
        """Insert the results of approved calls, in the order of `approved_calls`."""
        outputs = [raw for raw in results if head_of(raw).kind == OUTPUT]
        self.client_messages = fill_results(self.client_messages, self._placeholders, outputs)
        self.messages = fill_results(self.messages, self._placeholders, outputs)

    @property
    def labels(self) -> Mapping[str, str]:
        """Maps servers of the gateway to the client's labels; the empty name stands for all servers."""
        return {tool.server or "": tool.server_label for tool in self._servers}

    @property
    def shows_calls(self) -> bool:
        """Whether the client requests items for calls that the gateway runs."""
        return bytes(self._options.get("showCalls", b"true" if self._servers else b"")) == b"true"

    @property
    def system(self) -> bytes:
        return bytes(self._members.get("instructions", b"null"))

    def body(self, model_round: ModelRound) -> bytes:
        added_messages, injected_tools = model_round.added_messages, model_round.injected_tools
        self.injected_tools = injected_tools
        members = dict(self._members)
        members["model"] = Raw(encode(model_round.model))
        messages = unmark_ids(drop_orphaned_reasoning(self.messages) if injected_tools else self.messages)
        if added_messages and self.conversation is not None:  # the provider stored the items sent before
            members["input"] = Raw(array(_last_results(added_messages)))
        elif added_messages or (messages is not self._unchanged_input and messages != self._unchanged_input):
            members["input"] = Raw(array([*messages, *added_messages]))
        if injected_tools or self._servers:
            members["tools"] = Raw(array([*self._tools, *injected_tools]))
        if not self._tools and not injected_tools:
            for name in ("tools", "tool_choice") if self._servers else ():
                members.pop(name, None)
        elif model_round.forbids_calls:
            members["tool_choice"] = _NONE
        elif (choice := self._choice.write(injected_tools, is_first_round=model_round.sends_forced_choice)) is not None:
            members["tool_choice"] = choice
        return encode(members)

    def continue_from(self, earlier_items: Sequence[bytes], previous_id: str | None) -> bytes:
        """The whole request body, with `earlier_items` in front of the request's own items. With `previous_id`, the
        provider's id of a response, the request continues that response.
        """
        members = self._client_members()
        members.pop("previous_response_id", None)
        if previous_id is not None:
            members["previous_response_id"] = Raw(encode(previous_id))
        if earlier_items:
            members["input"] = Raw(array([*earlier_items, *self._client_items()]))
        return encode(members)

    def resolve(self, items: Mapping[str, bytes]) -> bytes:
        """The whole request body with items in place of references. `items`: referenced items by id. A reference to an
        item that the input contains anyway is left out.
        """
        resolved_items: list[bytes | Raw] = []
        seen_ids: set[str] = set()
        for raw in self._client_items():
            head = head_of(raw)
            ident = head.id or ""
            if head.kind != REFERENCE or ident not in items:
                resolved_items.append(raw)
            elif ident not in seen_ids:
                resolved_items.append(items[ident])
            seen_ids.add(ident)
        return encode({**self._client_members(), "input": Raw(array(resolved_items))})

    def _client_members(self) -> dict[str, Raw]:
        members = dict(self._members)
        if self._options:
            members[GATEWAY_MEMBER] = Raw(encode(self._options))
        return members

    def _client_items(self) -> Sequence[Raw]:
        client_input = self._input
        message = {"type": "message", "role": "user", "content": client_input}
        return [Raw(encode(message))] if isinstance(client_input, str) else client_input or []


def _references(client_input: str | Sequence[Raw] | None) -> Sequence[str]:
    heads = map(head_of, client_input) if isinstance(client_input, list) else ()
    return [head.id for head in heads if head.kind == REFERENCE and head.id]


def _last_results(added_messages: Sequence[bytes]) -> list[bytes]:
    """The result items at the end of the added messages."""
    start = len(added_messages)
    while start and head_of(added_messages[start - 1]).kind.endswith("_output"):
        start -= 1
    return [*added_messages[start:]]


def remove_thoughts(body: bytes, keep_last: int) -> bytes | None:
    """The request without reasoning items, except among its last `keep_last` items; None if nothing was removed.

    Items of calls lose their ids: for an item with an id the provider requires the reasoning that belongs to it.
    """
    members: dict[str, Any] = dict(members_of(body))
    encoded_items = members.get("input")
    items = _raws(encoded_items) if encoded_items is not None and bytes(encoded_items)[:1] == b"[" else []
    early_count = len(items) - keep_last
    heads = [head_of(item) for item in items[:early_count]]
    if not any(head.kind == REASONING for head in heads):
        return None
    remaining = [
        _without_id(item) if head.kind in (CALL, CUSTOM_CALL) else item
        for item, head in zip(items, heads, strict=False)
        if head.kind != REASONING
    ]
    return encode({**members, "input": Raw(array([*remaining, *items[early_count:]]))})


def _without_id(item: Raw) -> Raw:
    return Raw(encode({name: raw for name, raw in members_of(item).items() if name != "id"}))
