"""Requests without the thoughts that only the model which signed them takes. Pure module."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import SIGNED, TOOL_USE, Block, as_sent, blocks_of
from fairlead_formats.wire.raw_json import array

_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class _Said(msgspec.Struct):
    role: str
    content: Raw


_said: Final = msgspec.json.Decoder(_Said).decode


def without_thoughts(body: bytes, kept: int) -> bytes | None:
    """The request without signed thoughts, but for those in its last `kept` messages; None where there are none.

    Thinking is off where the turn at the end has lost a thought in front of a call: the API refuses that turn else.
    """
    members: dict[str, Any] = dict(_members(body))
    messages = _raws(members["messages"])
    found: list[bytes | Raw] = []
    lost = lost_in_turn = False
    for place, raw in enumerate(messages):
        said = _said(raw)
        blocks = blocks_of(bytes(said.content))
        if said.role != "assistant":
            lost_in_turn = lost_in_turn and all(block.kind == "tool_result" for block in blocks)
        others = [block for block in blocks if block.kind not in SIGNED]
        if said.role != "assistant" or place >= len(messages) - kept or len(others) == len(blocks):
            found.append(raw)
            continue
        lost = True
        lost_in_turn = lost_in_turn or _calls(others)
        found += as_sent("assistant", others)
    if not lost:
        return None
    if lost_in_turn:
        members.pop("thinking", None)
    return _encode({**members, "messages": Raw(array(found))})


def _calls(blocks: list[Block]) -> bool:
    return any(block.kind == TOOL_USE for block in blocks)
