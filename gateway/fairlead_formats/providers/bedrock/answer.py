"""Whole answers of Bedrock Converse: the provider's answer of each round, and the one answer that the client gets.

Pure module. A round is one request to the model; the gateway runs tools between rounds. Members that the gateway does
not interpret are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.bedrock.blocks import (
    MALFORMED,
    REASONING,
    TOOL_USE,
    Block,
    as_foreign,
    as_request,
    blocks_of,
    call_in,
    is_hidden,
    message_of,
)
from fairlead_formats.wire.call_ids import new_id
from fairlead_formats.wire.protocol import BadAnswer, CallKey, InnerCall, LoopResult, WireAnswer
from fairlead_mcp.surrogates import replace_lone_surrogates

_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode: Final = msgspec.json.Decoder().decode


class BedrockAnswer:
    """The provider's answer in one round."""

    malformed_call: bool

    def __init__(self, body: bytes) -> None:
        """Raises BadAnswer."""
        try:
            self._members = _members(replace_lone_surrogates(body))
            message = _decode(_members(self._members["output"])["message"])
            usage = _decode(self._members.get("usage", b"null"))
            reason = _decode(self._members.get("stopReason", b"null"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the provider's answer is not an answer of Converse: {error}") from error
        except KeyError as error:
            raise BadAnswer("the provider's answer has no message") from error
        content = message.get("content") if isinstance(message, dict) else None
        earlier_ids: set[str] = set()
        self.blocks = [_with_id(block, earlier_ids) for block in blocks_of(content)]
        self.usage: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        self.stop_reason = reason if isinstance(reason, str) else ""
        self.malformed_call = is_malformed_call(self.blocks, self.stop_reason)

    @property
    def message(self) -> dict[str, Any]:
        return message_of(self.blocks, self.stop_reason)

    @property
    def request_messages(self) -> list[bytes]:
        return as_request("assistant", self.blocks)

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        self.blocks = [unwrap_call(block, calls) for block in self.blocks]

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        return None  # no turn needs to be stored: the API accepts finished turns without their reasoning

    def write(self, loop: LoopResult) -> bytes:
        """The client's answer, with the blocks of all rounds. Converse has no form for calls that the gateway ran."""
        rounds = [
            *(round_answer for round_answer in loop.earlier_answers if isinstance(round_answer, BedrockAnswer)),
            self,
        ]
        content: list[Block] = []
        for number, round_answer in enumerate(rounds, 1):
            content += visible_blocks(round_answer.blocks, number, loop.client_tools)
        members = {**self._members, **{name: Raw(_encode(value)) for name, value in loop.extra_members.items()}}
        members["output"] = Raw(_encode({"message": {"role": "assistant", "content": content}}))
        if loop.usage and len(rounds) > 1:
            members["usage"] = Raw(_encode(loop.usage))
        if self.stop_reason == "tool_use" and hides_all_calls(self.blocks, loop.client_tools):
            members["stopReason"] = Raw(b'"end_turn"')
        return _encode(members)


def is_malformed_call(blocks: Sequence[Block], stop_reason: str) -> bool:
    """Whether an answer ended with an unreadable call and has nothing else but reasoning."""
    return stop_reason in MALFORMED and all(REASONING in block for block in blocks)


def visible_blocks(blocks: Sequence[Block], number: int, client_tools: Collection[str] | None) -> list[Block]:
    """Blocks of round `number` that the client receives. From round 2 on, reasoning has `FOREIGN_SIGNATURE`."""
    client_blocks = [block for block in blocks if not is_hidden(block, client_tools)]
    if number == 1:
        return client_blocks
    client_form = [as_foreign(block) if REASONING in block else block for block in client_blocks]
    return [block for block in client_form if block is not None]


def hides_all_calls(blocks: Sequence[Block], client_tools: Collection[str] | None) -> bool:
    """Whether there are calls among the blocks, and the client receives none of these."""
    calls = [block for block in blocks if call_in(block) is not None]
    return bool(calls) and all(is_hidden(block, client_tools) for block in calls)


def unwrap_call(block: Block, calls: Mapping[str, InnerCall]) -> Block:
    """The block; a call of `execute_tool` is replaced by the call that its arguments name. `calls`: by id."""
    use = call_in(block)
    call = calls.get(str(use.get("toolUseId"))) if use is not None else None
    if call is None or use is None:
        return block
    return {TOOL_USE: {**use, "name": call.name, "input": _decode(call.arguments)}}


def _with_id(block: Block, earlier_ids: set[str]) -> Block:
    """The block, with a new id if it is a call that has none or repeats the id of an earlier call.

    `earlier_ids`: ids of the answer's earlier calls. The id of an unchanged call is added to it.
    """
    use = call_in(block)
    if use is None:
        return block
    ident = use.get("toolUseId")
    if isinstance(ident, str) and ident and ident not in earlier_ids:
        earlier_ids.add(ident)
        return block
    return {TOOL_USE: {**use, "toolUseId": new_id("toolu")}}
