"""One response in place of the answers of several rounds: its members, and the items of its output. Pure module."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import (
    REASONING,
    encode,
    head_of,
    is_hidden,
    mark_id,
    members_of,
    new_id,
    new_mark,
)
from fairlead_formats.providers.openai_responses.own_servers import (
    approval_request,
    list_item,
    new_approval_id,
    outcome_of,
    running_item,
)
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.wire.protocol import REASONING_ITEM, CallKey, FinishedCall, RunningCall, WireRequest

_FIRST: Final = ("created_at", "tool_choice")
"""Members that the client gets from the first answer: requests of later rounds differ in them."""


class _Members(msgspec.Struct):
    id: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: dict[str, Any] | None = None


read_response: Final = msgspec.json.Decoder(_Members).decode


class ShownResponse:
    """The one response that the answers of all rounds become. Its id is made here: that of the provider changes with
    each round, and is valid for any caller of the gateway's key.
    """

    def __init__(self, request: WireRequest, client_tools: Collection[str] | None) -> None:
        """`client_tools`: names of tools whose calls the client sees; None: it sees all, and nothing is run here."""
        self._request = request if isinstance(request, ResponsesRequest) else None
        self._client_tools = client_tools
        self.id = new_id("resp")
        self._first: dict[str, Raw] = {}
        self.items: list[Raw] = []
        self._taken: set[str] = set()
        self._renamed: dict[str, str] = {}
        self.mark = new_mark()
        """Random part of the ids of this round's thoughts."""
        self._approval_ids: dict[str | None, str] = {}
        """By id of the call, of this round."""

    def members(self, response: Mapping[str, Raw]) -> dict[str, Raw]:
        """Members of a provider's response, with the client's ids and tools."""
        members = dict(response)
        if not self._first:
            self._first = {name: members[name] for name in _FIRST if name in members}
        members |= {name: raw for name, raw in self._first.items() if name in members}
        members["id"] = Raw(encode(self.id))
        if self._request is not None:
            if self._request.previous is not None:
                members["previous_response_id"] = Raw(encode(self._request.previous))
            if self._client_tools is not None and "tools" in members:
                members["tools"] = self._request.given_tools
        return members

    def ident(self, given: str) -> str:
        """Id of an item of this round: its own, unless an earlier round had one of that name."""
        if given not in self._renamed:
            self._renamed[given] = new_id(given) if given in self._taken else given
        return self._renamed[given]

    def hides(self, raw: bytes | Raw) -> bool:
        """Whether an item is a call that is run here."""
        return is_hidden(head_of(raw), self._client_tools)

    def approves(self, name: str | None) -> bool:
        """Whether calls of a tool are shown to the client for its approval."""
        request = self._request
        return (
            request is not None
            and self._client_tools is not None
            and name in self._client_tools
            and (name not in request.tool_names)
        )

    def show(self, raw: Raw) -> Raw:
        """An item as the client sees it."""
        head = head_of(raw)
        if head.is_call and self._request is not None and self.approves(head.name):
            if head.call_id not in self._approval_ids:
                self._approval_ids[head.call_id] = new_approval_id(head.call_id)
            return approval_request(self._request.labels, raw, self._approval_ids[head.call_id])
        if head.id is None:
            return raw
        if head.kind == REASONING and self._client_tools is not None and hides_calls(self._request):
            self._renamed[head.id] = mark_id(head.id, self.mark)
        if self.ident(head.id) == head.id:
            return raw
        return Raw(encode({**members_of(raw), "id": Raw(encode(self.ident(head.id)))}))

    def add(self, items: Sequence[Raw]) -> None:
        """Add the items of a round that the client sees."""
        self.items += [self.show(raw) for raw in items if not self.hides(raw)]

    def listing(self) -> Raw | None:
        """The item that lists the gateway's tools; None where the client does not want it or has it already."""
        request = self._request
        if request is None or not request.shows_calls or request.listed or not request.injected:
            return None
        return list_item(request.labels, request.injected)

    def running(self, call: RunningCall) -> dict[str, Any]:
        """The item of a call that is run here."""
        if self._request is None:
            return running_item({}, call, None)
        return running_item(self._request.labels, call, self._request.approval_ids.get(call.id))

    def call(self, call: FinishedCall) -> dict[str, Any]:
        """The item of a call that was run here."""
        return {**self.running(call), **outcome_of(call)}

    def next_round(self) -> None:
        """Go on with the next answer."""
        self._taken |= set(self._renamed.values())
        self._renamed = {}
        self._approval_ids = {}
        self.mark = new_mark()


def hides_calls(request: WireRequest | None) -> bool:
    """Whether the client has thoughts without the calls that they led to."""
    return isinstance(request, ResponsesRequest) and not request.shows_calls


def last_thought(request: WireRequest, rounds: Sequence[tuple[Sequence[bytes | Raw], str]]) -> CallKey | None:
    """The last thought of a turn as the client has it, where an earlier round had one. `rounds`: items and mark."""
    if not hides_calls(request) or not any(thoughts(items) for items, _ in rounds[:-1]):
        return None
    return CallKey([mark_id(ident, mark) for items, mark in rounds for ident in thoughts(items)][-1], REASONING_ITEM)


def thoughts(items: Sequence[bytes | Raw]) -> list[str]:
    """Ids of the thoughts among items."""
    heads = [head_of(raw) for raw in items if b'"reasoning"' in bytes(raw)]
    return [head.id for head in heads if head.kind == REASONING and head.id]
