"""Whole answers of Anthropic Messages: the provider's answer of each round, and the one answer that the client gets.

Pure module. A round is one request to the model; the gateway runs tools between rounds. Members that the gateway does
not interpret are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import truncates
from fairlead_formats.providers.anthropic.blocks import (
    TOOL_USE,
    Block,
    as_message,
    blocks_of,
    calls_in,
    is_hidden,
    new_mark,
    thought_key,
)
from fairlead_formats.providers.anthropic.shown_calls import call_blocks
from fairlead_formats.wire.call_ids import new_id
from fairlead_formats.wire.protocol import BadAnswer, CallKey, InnerCall, LoopResult, WireAnswer
from fairlead_formats.wire.raw_json import array

_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode: Final = msgspec.json.Decoder().decode


class AnthropicAnswer:
    """The provider's answer in one round."""

    def __init__(self, body: bytes) -> None:
        """Raises BadAnswer."""
        try:
            self._members = _members(body)
            earlier_ids: set[str] = set()
            self.blocks = [_with_id(block, earlier_ids) for block in blocks_of(bytes(self._members["content"]))]
            usage = _decode(self._members.get("usage", b"null"))
            reason = _decode(self._members.get("stop_reason", b"null"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the provider's answer is not a message: {error}") from error
        except KeyError as error:
            raise BadAnswer("the provider's answer has no content") from error
        self.usage: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        self.stop_reason: str | None = reason if isinstance(reason, str) else None
        self.mark = new_mark()

    @property
    def message(self) -> dict[str, Any]:
        return calls_in([block.members for block in self.blocks], self.stop_reason)

    @property
    def head(self) -> dict[str, Raw]:
        """Members that identify the answer for clients."""
        return {name: raw for name, raw in self._members.items() if name in ("id", "model")}

    @property
    def request_messages(self) -> list[bytes]:
        """The message with unchanged blocks."""
        return as_message("assistant", self.blocks)

    @property
    def calls(self) -> set[str]:
        """Ids of the calls in the answer."""
        return {str(block.members["id"]) for block in self.blocks if block.kind == TOOL_USE}

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        inner_calls = [calls.get(str(block.members["id"])) if block.kind == TOOL_USE else None for block in self.blocks]
        self.blocks = [
            block if call is None else block.unwrap(call) for block, call in zip(self.blocks, inner_calls, strict=True)
        ]

    malformed_call = False  # this API does not report unreadable calls

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        if truncates(self.stop_reason):
            return None
        later_answers = [
            round_answer for round_answer in (*earlier_answers, self) if isinstance(round_answer, AnthropicAnswer)
        ][1:]
        signatures = [
            block.mark(number, round_answer.mark).signature
            for number, round_answer in enumerate(later_answers, 2)
            for block in round_answer.blocks
            if block.signature
        ]
        return thought_key(signatures[-1]) if signatures else None

    def write(self, loop: LoopResult) -> bytes:
        """The client's answer, with the id of the first round and the blocks of all rounds."""
        client_tools = loop.client_tools
        rounds = [
            *(round_answer for round_answer in loop.earlier_answers if isinstance(round_answer, AnthropicAnswer)),
            self,
        ]
        content: list[bytes | Raw] = []
        for number, round_answer in enumerate(rounds, 1):
            content += round_answer.visible_blocks(number, client_tools)
            content += call_blocks([call for call in loop.gateway_calls if call.id in round_answer.calls])
        members = {**self._members, **{name: Raw(_encode(value)) for name, value in loop.extra_members.items()}}
        members |= rounds[0].head
        members["content"] = Raw(array(content))
        if loop.usage and len(rounds) > 1:
            members["usage"] = Raw(_encode(loop.usage))
        has_hidden_call = any(is_hidden(block.members, client_tools) for block in self.blocks)
        has_client_call = any(
            block.kind == TOOL_USE and not is_hidden(block.members, client_tools) for block in self.blocks
        )
        if has_hidden_call and not has_client_call and self.stop_reason == TOOL_USE:
            members["stop_reason"] = Raw(b'"end_turn"')
        return _encode(members)

    def visible_blocks(self, number: int, client_tools: Collection[str] | None) -> list[bytes | Raw]:
        """Blocks of this answer that the client receives. Their signatures are marked with the round's `number`."""
        return [
            block.mark(number, self.mark).raw for block in self.blocks if not is_hidden(block.members, client_tools)
        ]


def _with_id(block: Block, earlier_ids: set[str]) -> Block:
    """The block, with a new id if it is a call that has none or repeats the id of an earlier call.

    `earlier_ids`: ids of the answer's earlier calls. The id of an unchanged call is added to it.
    """
    if block.kind != TOOL_USE:
        return block
    ident = block.members.get("id")
    if isinstance(ident, str) and ident and ident not in earlier_ids:
        earlier_ids.add(ident)
        return block
    return _with_member(block, "id", new_id("toolu"))


def _with_member(block: Block, name: str, value: str) -> Block:
    raws = _members(block.raw)
    raws[name] = Raw(_encode(value))
    return Block(_encode(raws), {**block.members, name: value})
