"""The one response that a client of OpenAI Responses gets for all rounds: its members and output items. Pure module.

A round is one request to the model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import (
    APPROVAL_REQUEST,
    REASONING,
    encode,
    head_of,
    is_hidden,
    mark_id,
    members_of,
    new_id,
    new_response_id,
)
from fairlead_formats.providers.openai_responses.mcp_tools import (
    approval_id,
    approval_request,
    list_item,
    outcome_of,
    running_item,
)
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.wire.protocol import REASONING_ITEM, CallKey, FinishedCall, RunningCall, WireRequest

_FIRST_ROUND_MEMBERS: Final = ("created_at", "tool_choice")
"""Members of the client's response that are from the first round: requests of later rounds have other values."""


class _Members(msgspec.Struct):
    id: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: dict[str, Any] | None = None


read_response: Final = msgspec.json.Decoder(_Members).decode


class ResponseOverRounds:
    """The client's response for the answers of all rounds. The gateway generates its id, because the provider's id
    changes in each round, and because the provider accepts its own id from every user of the gateway's API key.
    """

    def __init__(self, request: WireRequest, client_tools: Collection[str] | None) -> None:
        """`client_tools`: names of the tools whose calls the client receives, which are its own tools and the gateway's
        tools that need an approval; None: the client receives all calls.
        """
        self._request = request if isinstance(request, ResponsesRequest) else None
        self._client_tools = client_tools
        self.id = new_response_id() if self._request is None else self._request.response_id
        self._first_members: dict[str, Raw] = {}
        """Members of the first round's answer that are in `_FIRST_ROUND_MEMBERS`."""
        self.items: list[Raw] = []
        """Output items for the client."""
        self._earlier_ids: set[str] = set()
        """The client's item ids of earlier rounds."""
        self._client_ids: dict[str, str] = {}
        """Maps the provider's item ids of this round to the client's item ids."""
        self.mark = new_mark(request)
        """Suffix that the ids of this round's items get for the client (`items.mark_id`)."""
        self._approval_ids: dict[str | None, str] = {}
        """Ids of this round's approval requests, by call id."""

    def members(self, response: Mapping[str, Raw]) -> dict[str, Raw]:
        """Members of a provider's response, with the client's ids and tools."""
        members = dict(response)
        if not self._first_members:
            self._first_members = {name: members[name] for name in _FIRST_ROUND_MEMBERS if name in members}
        members |= {name: raw for name, raw in self._first_members.items() if name in members}
        members["id"] = Raw(encode(self.id))
        if self._request is not None:
            if self._request.previous_id is not None:
                members["previous_response_id"] = Raw(encode(self._request.previous_id))
            if self._client_tools is not None and "tools" in members:
                members["tools"] = self._request.tools_member
        return members

    def client_id(self, provider_id: str) -> str:
        """The client's id of an item of this round: the marked id if `to_client` has marked it, else the provider's id,
        or a new id if an earlier round used that id.
        """
        if provider_id not in self._client_ids:
            self._client_ids[provider_id] = new_id(provider_id) if provider_id in self._earlier_ids else provider_id
        return self._client_ids[provider_id]

    def is_withheld(self, raw: bytes | Raw) -> bool:
        """Whether an item is a call that the client does not receive: the gateway runs it, or it would need an approval
        but is truncated, so that nobody runs it.
        """
        head = head_of(raw)
        is_truncated = head.is_call and head.status == "incomplete"
        return is_hidden(head, self._client_tools) or (is_truncated and self.needs_approval(head.name))

    def needs_approval(self, name: str | None) -> bool:
        """Whether a tool is the gateway's, but the client receives its calls, because it has to approve them."""
        request = self._request
        return (
            request is not None
            and self._client_tools is not None
            and name in self._client_tools
            and (name not in request.tool_names)
        )

    def to_client(self, raw: Raw) -> Raw:
        """An item in the client's form."""
        head = head_of(raw)
        if head.is_call and self._request is not None and self.needs_approval(head.name):
            if head.call_id not in self._approval_ids:
                self._approval_ids[head.call_id] = approval_id(self.id, head.call_id)
            return approval_request(self._request.labels, raw, self._approval_ids[head.call_id])
        if head.id is None:
            return raw
        if head.kind != APPROVAL_REQUEST and self._client_tools is not None and self._request is not None:
            self._client_ids[head.id] = mark_id(head.id, self.mark)
        if self.client_id(head.id) == head.id:
            return raw
        return Raw(encode({**members_of(raw), "id": Raw(encode(self.client_id(head.id)))}))

    def add(self, items: Sequence[Raw]) -> None:
        """Add the items of a round that the client receives."""
        self.items += [self.to_client(raw) for raw in items if not self.is_withheld(raw)]

    def tool_list(self) -> Raw | None:
        """The item that lists the gateway's tools; None if the client does not request it or has received it, or if the
        request got no tools of the gateway.
        """
        request = self._request
        if request is None or not request.shows_calls or request.has_tool_list or not request.injected_tools:
            return None
        return list_item(request.labels, request.injected_tools, self.id)

    def running_call(self, call: RunningCall) -> dict[str, Any]:
        """The item of a call that the gateway is about to run."""
        if self._request is None:
            return running_item({}, call, None)
        return running_item(self._request.labels, call, self._request.approval_ids.get(call.id))

    def finished_call(self, call: FinishedCall) -> dict[str, Any]:
        """The item of a call that the gateway has run."""
        return {**self.running_call(call), **outcome_of(call)}

    def next_round(self) -> None:
        """Begin the next round."""
        self._earlier_ids |= set(self._client_ids.values())
        self._client_ids = {}
        self._approval_ids = {}
        self.mark = new_mark(self._request)


def new_mark(request: WireRequest | None) -> str:
    """A new mark for the item ids of a round (`items.mark_id`); empty for clients of other APIs."""
    return request.new_mark() if isinstance(request, ResponsesRequest) else ""


def hides_calls(request: WireRequest | None) -> bool:
    """Whether the client receives reasoning without the calls that follow, because the gateway runs and hides these
    calls.
    """
    return isinstance(request, ResponsesRequest) and not request.shows_calls


def last_reasoning_key(request: WireRequest, rounds: Sequence[tuple[Sequence[bytes | Raw], str]]) -> CallKey | None:
    """Key of a turn's stored state: the client's id of the last reasoning item. None unless an earlier round had
    reasoning. `rounds`: items and mark of each round.
    """
    if not hides_calls(request) or not any(reasoning_ids(items) for items, _ in rounds[:-1]):
        return None
    return CallKey(
        [mark_id(ident, mark) for items, mark in rounds for ident in reasoning_ids(items)][-1], REASONING_ITEM
    )


def reasoning_ids(items: Sequence[bytes | Raw]) -> list[str]:
    """Ids of the reasoning items."""
    heads = [head_of(raw) for raw in items if b'"reasoning"' in bytes(raw)]
    return [head.id for head in heads if head.kind == REASONING and head.id]
