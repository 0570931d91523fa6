"""Whole answers of OpenAI Responses: the provider's answer of each round, and the one response that the client gets.

Pure module. A round is one request to the model; the gateway runs tools between rounds. Members and items that the
gateway does not interpret are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import (
    encode,
    members_of,
    unwrap_calls,
    waiting_calls,
    with_call_ids,
)
from fairlead_formats.providers.openai_responses.rounds import (
    ShownResponse,
    last_reasoning_key,
    new_mark,
    read_response,
)
from fairlead_formats.wire.protocol import BadAnswer, CallKey, InnerCall, LoopResult, WireAnswer, WireRequest


class ResponsesAnswer:
    """The provider's answer in one round."""

    def __init__(self, body: bytes, request: WireRequest) -> None:
        """Raises BadAnswer."""
        try:
            self.members = members_of(body)
            read = read_response(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the provider's answer is not a response: {error}") from error
        if "output" not in self.members:
            raise BadAnswer("the provider's answer has no output")
        self._request = request
        self.mark = new_mark(request)
        self.provider_id = read.id or ""
        self.items = with_call_ids(read.output or [])
        self.usage: Mapping[str, Any] = read.usage or {}
        calls = waiting_calls(self.items) if read.status in (None, "completed") else []
        self.message: Mapping[str, Any] = {"object": "response", "output": calls}
        self.call_ids = {str(call.get("call_id")) for call in calls}

    @property
    def request_messages(self) -> list[bytes]:
        return [*map(bytes, self.items)]

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        self.items = unwrap_calls(self.items, calls)

    malformed_call = False  # this API does not report unreadable calls

    def turn_key(self, before: Sequence[WireAnswer]) -> CallKey | None:
        rounds = [(each.items, each.mark) for each in before if isinstance(each, ResponsesAnswer)]
        return last_reasoning_key(self._request, [*rounds, (self.items, self.mark)])

    def write(self, loop: LoopResult) -> bytes:
        rounds = [*(each for each in loop.before if isinstance(each, ResponsesAnswer)), self]
        shown = ShownResponse(self._request, loop.client_tools)
        tool_list = shown.tool_list()
        shown.items += [] if tool_list is None else [tool_list]
        called = {call_id for each in rounds for call_id in each.call_ids}
        shown.items += [Raw(encode(shown.finished_call(call))) for call in loop.ran if call.id not in called]
        for each in rounds:
            shown.mark = each.mark
            shown.members(each.members)
            shown.add(each.items)
            shown.items += [Raw(encode(shown.finished_call(call))) for call in loop.ran if call.id in each.call_ids]
            shown.next_round()
        members = shown.members(self.members) | {name: Raw(encode(value)) for name, value in loop.extra_members.items()}
        members["output"] = Raw(encode(shown.items))
        if loop.usage:
            members["usage"] = Raw(encode(loop.usage))
        return encode(members)
