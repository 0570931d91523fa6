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
    ResponseOverRounds,
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
            response = read_response(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the provider's answer is not a response: {error}") from error
        if "output" not in self.members:
            raise BadAnswer("the provider's answer has no output")
        self._request = request
        self.mark = new_mark(request)
        self.provider_id = response.id or ""
        self.items = with_call_ids(response.output or [])
        self.usage: Mapping[str, Any] = response.usage or {}
        calls = waiting_calls(self.items) if response.status in (None, "completed") else []
        self.message: Mapping[str, Any] = {"object": "response", "output": calls}
        self.call_ids = {str(call.get("call_id")) for call in calls}

    @property
    def request_messages(self) -> list[bytes]:
        return [*map(bytes, self.items)]

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        self.items = unwrap_calls(self.items, calls)

    malformed_call = False  # this API does not report unreadable calls

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        rounds = [
            (round_answer.items, round_answer.mark)
            for round_answer in earlier_answers
            if isinstance(round_answer, ResponsesAnswer)
        ]
        return last_reasoning_key(self._request, [*rounds, (self.items, self.mark)])

    def write(self, loop: LoopResult) -> bytes:
        rounds = [
            *(round_answer for round_answer in loop.earlier_answers if isinstance(round_answer, ResponsesAnswer)),
            self,
        ]
        client_response = ResponseOverRounds(self._request, loop.client_tools)
        tool_list = client_response.tool_list()
        client_response.items += [] if tool_list is None else [tool_list]
        call_ids = {call_id for round_answer in rounds for call_id in round_answer.call_ids}
        client_response.items += [
            Raw(encode(client_response.finished_call(call))) for call in loop.gateway_calls if call.id not in call_ids
        ]
        for round_answer in rounds:
            client_response.mark = round_answer.mark
            client_response.members(round_answer.members)
            client_response.add(round_answer.items)
            client_response.items += [
                Raw(encode(client_response.finished_call(call)))
                for call in loop.gateway_calls
                if call.id in round_answer.call_ids
            ]
            client_response.next_round()
        members = client_response.members(self.members) | {
            name: Raw(encode(value)) for name, value in loop.extra_members.items()
        }
        members["output"] = Raw(encode(client_response.items))
        if loop.usage:
            members["usage"] = Raw(encode(loop.usage))
        return encode(members)
