"""Requests of OpenAI Responses: read as raw members, so that what is not understood goes out as it came.

Pure module. Wire format: OpenAI's API reference, `POST /v1/responses`. A request can go without the reasoning that only
the model which encrypted it takes.
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
    ELSEWHERE,
    OUTPUT,
    REASONING,
    encode,
    head_of,
    members_of,
    names_within,
    unmark_ids,
    without_orphans,
)
from fairlead_formats.providers.openai_responses.own_servers import LIST_ID, McpTool
from fairlead_formats.providers.openai_responses.tool_choice import ChoiceOverRounds
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, FamilyRequest, reading_body
from fairlead_formats.wire.protocol import BadRequest, ModelRound
from fairlead_formats.wire.raw_json import array, decode_object

_ELSEWHERE: Final = ELSEWHERE.encode()
_NONE: Final = Raw(b'"none"')
_LOADS: Final = ("tool_search_output", "additional_tools")
"""Items that bring tools with them."""
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


_read: Final = msgspec.json.Decoder(_ResponsesMembers).decode
_tool: Final = msgspec.json.Decoder(_ToolHead).decode
_mcp: Final = msgspec.json.Decoder(McpTool).decode


class ResponsesRequest(FamilyRequest):
    """One request of a client."""

    def __init__(self, body: bytes) -> None:
        """Raises BadRequest."""
        with reading_body():
            read = _read(body)
            self._members = members_of(body)
            self._read_tools(read.tools or ())
            self._choice = ChoiceOverRounds(
                read.tool_choice, {tool.server_label: tool.server or "" for tool in self._servers}
            )
            self._own = members_of(read.fairlead)
        if read.background and read.stream:
            raise BadRequest("background: an answer in the background is not streamed; ask for it by its id", "stream")
        self.model = read.model
        self.stream = bool(read.stream)
        self.no_injection = bool(read.background)  # nobody would be there for the rounds
        self.previous = read.previous_response_id
        """Id of the answer that is gone on from, as the client knows it."""
        conversation = read.conversation.get("id") if isinstance(read.conversation, dict) else read.conversation
        self.conversation: str | None = conversation if isinstance(conversation, str) else None
        self.stores = read.store is not False
        """Whether the provider is to keep the answer."""
        self.gateway_options = self._wishes(read.max_tool_calls)
        self._given = read.input
        self.injected: Sequence[bytes] = ()
        """Definitions that the last body had beside the client's."""
        self._members.pop(GATEWAY_MEMBER, None)
        self._read_items(())

    def _wishes(self, most_calls: int | None) -> Raw:
        """Wishes of the member `fairlead`, and of other members that are about the gateway's tools."""
        wishes = dict(self._own)
        if self._servers:
            wishes = {"showCalls": Raw(b"true"), **wishes, "mcp": Raw(encode([tool.wish() for tool in self._servers]))}
        if most_calls is not None:
            wishes = {"maxCalls": Raw(encode(max(most_calls, 0))), **wishes}
        return Raw(encode(wishes))

    def _read_tools(self, tools: Sequence[Raw]) -> None:
        self.given_tools = self._members.get("tools", Raw(b"[]"))
        """As they came, for answers that repeat them."""
        self._servers: list[McpTool] = []
        """Tools that name servers of the gateway, and do not go out."""
        given: list[Raw] = []
        names: set[str] = set()
        for raw in tools:
            head = _tool(raw)
            server = _mcp(raw) if head.type == "mcp" and b"fairlead" in bytes(raw) else None
            if server is not None and server.server is not None:
                self._servers.append(server)
                continue
            given.append(raw)
            nested = names_within(decode_object(raw)) if head.type == "namespace" else ()
            own = head.name if head.type in ("function", "custom") else CLIENT_TOOLS.get(head.type)
            names.update(nested, [own] if own else ())
        self._tools = given
        self._names = frozenset(names)

    def _read_items(self, waiting: Sequence[bytes]) -> None:
        given = self._given
        message = {"type": "message", "role": "user", "content": given}
        came = [Raw(encode(message))] if isinstance(given, str) else given or []
        items = [item for item in came if _ELSEWHERE not in bytes(item) or not head_of(item).elsewhere]
        approvals = Approvals(items, waiting)
        loaded = [name for item in items if head_of(item).kind in _LOADS for name in names_within(decode_object(item))]
        self.tool_names = frozenset([*self._names, *loaded])
        self.approved = approvals.calls
        """Calls of the gateway's tools that this request approves."""
        self.approval_ids: Mapping[str, str] = approvals.ids
        """Ids of the approvals, by ids of the calls."""
        self._places = approvals.places
        self.listed = any(b'"' + LIST_ID.encode() in bytes(item) for item in items)
        """Whether the client has a list of the gateway's tools already."""
        self.client_messages = self.messages = approvals.items
        self._as_it_came = None if approvals.changed or len(items) < len(came) else self.client_messages

    def resume(self, previous: str | None, waiting: Sequence[bytes]) -> None:
        """Go on from an answer that the client knows as `previous`; `waiting` are its requests for approval."""
        self.previous = previous
        if waiting:
            self._read_items(waiting)

    def fill(self, results: Sequence[bytes]) -> None:
        """Put results of approved calls into their places."""
        outputs = [raw for raw in results if head_of(raw).kind == OUTPUT]
        self.client_messages = fill_results(self.client_messages, self._places, outputs)
        self.messages = fill_results(self.messages, self._places, outputs)

    @property
    def labels(self) -> Mapping[str, str]:
        """The client's labels for servers of the gateway, by server; under the empty name the label for all servers."""
        return {tool.server or "": tool.server_label for tool in self._servers}

    @property
    def shows_calls(self) -> bool:
        """Whether the client wants to see calls that are run here."""
        return bytes(self._own.get("showCalls", b"true" if self._servers else b"")) == b"true"

    @property
    def system(self) -> bytes:
        return bytes(self._members.get("instructions", b"null"))

    def body(self, model_round: ModelRound) -> bytes:
        added_messages, injected = model_round.added_messages, model_round.injected
        self.injected = injected
        members = dict(self._members)
        members["model"] = Raw(encode(model_round.model))
        messages = unmark_ids(without_orphans(self.messages) if injected else self.messages)
        if added_messages and self.conversation is not None:  # which holds all that was said before
            members["input"] = Raw(array(_last_results(added_messages)))
        elif added_messages or (messages is not self._as_it_came and messages != self._as_it_came):
            members["input"] = Raw(array([*messages, *added_messages]))
        if injected or self._servers:
            members["tools"] = Raw(array([*self._tools, *injected]))
        if not self._tools and not injected:
            for name in ("tools", "tool_choice") if self._servers else ():
                members.pop(name, None)
        elif model_round.last:
            members["tool_choice"] = _NONE
        elif (choice := self._choice.write(injected, first=model_round.first)) is not None:
            members["tool_choice"] = choice
        return encode(members)

    def continue_from(self, before: Sequence[bytes], previous: str | None) -> bytes:
        """The whole request with items in front of its own, going on from the provider's own id of an answer, or from
        none.
        """
        members = dict(self._members)
        members.pop("previous_response_id", None)
        if previous is not None:
            members["previous_response_id"] = Raw(encode(previous))
        given = self._given
        message = {"type": "message", "role": "user", "content": given}
        items = [Raw(encode(message))] if isinstance(given, str) else given or []
        if before:
            members["input"] = Raw(array([*before, *items]))
        if self._own:
            members[GATEWAY_MEMBER] = Raw(encode(self._own))
        return encode(members)


def _last_results(added_messages: Sequence[bytes]) -> list[bytes]:
    """Results at the end."""
    start = len(added_messages)
    while start and head_of(added_messages[start - 1]).kind.endswith("_output"):
        start -= 1
    return [*added_messages[start:]]


def remove_thoughts(body: bytes, keep_last: int) -> bytes | None:
    """The request without items of reasoning, except those among its last `keep_last` items; None where it has none.

    Calls lose their ids: a provider that knows one looks for the reasoning that it belongs to.
    """
    members: dict[str, Any] = dict(members_of(body))
    given = members.get("input")
    items = _raws(given) if given is not None and bytes(given)[:1] == b"[" else []
    early = len(items) - keep_last
    heads = [head_of(item) for item in items[:early]]
    if not any(head.kind == REASONING for head in heads):
        return None
    left = [
        _without_id(item) if head.kind in (CALL, CUSTOM_CALL) else item
        for item, head in zip(items, heads, strict=False)
        if head.kind != REASONING
    ]
    return encode({**members, "input": Raw(array([*left, *items[early:]]))})


def _without_id(item: Raw) -> Raw:
    return Raw(encode({name: raw for name, raw in members_of(item).items() if name != "id"}))
