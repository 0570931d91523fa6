"""Splits a whole answer of Converse into events of ConverseStream, for servers that ignore a request for a stream.

Pure module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.bedrock.blocks import REASONING, TOOL_USE
from fairlead_formats.wire.protocol import BadAnswer

_MESSAGE_STOP: Final = ("stopReason", "additionalModelResponseFields")
_METADATA: Final = ("usage", "metrics", "trace", "performanceConfig", "serviceTier")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class _ConverseMessage(msgspec.Struct):
    content: list[dict[str, Raw]]
    role: str = "assistant"


class _ConverseOutput(msgspec.Struct):
    message: _ConverseMessage


class _WholeConverseAnswer(msgspec.Struct):
    output: _ConverseOutput


_decode_answer: Final = msgspec.json.Decoder(_WholeConverseAnswer).decode


def whole_events(body: bytes) -> list[bytes]:
    """Data of the events from `messageStart` to `metadata`. Raises BadAnswer."""
    try:
        members, message = _members(body), _decode_answer(body).output.message
        blocks = [event for index, block in enumerate(message.content) for event in _block_events(index, block)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the provider's answer is not an answer of Converse: {error}") from error
    has_calls = any(TOOL_USE in block for block in message.content)
    stop = {"stopReason": "tool_use" if has_calls else "end_turn"} | _select(members, _MESSAGE_STOP)
    return [
        _encode({"messageStart": {"role": message.role}}),
        *blocks,
        _encode({"messageStop": stop}),
        _encode({"metadata": _select(members, _METADATA)}),
    ]


def _select(members: Mapping[str, Raw], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: members[name] for name in names if name in members}


def _block_events(index: int, block: Mapping[str, Raw]) -> Iterator[bytes]:
    """Data of the events of one block. Only blocks of calls and results have a `contentBlockStart`."""
    position = {"contentBlockIndex": index}
    deltas: list[Mapping[str, Any]] = []
    if TOOL_USE in block:
        use = _members(block[TOOL_USE])
        arguments = use.pop("input", Raw(b"{}"))
        yield _encode({"contentBlockStart": {**position, "start": {TOOL_USE: use}}})
        deltas = [{TOOL_USE: {"input": bytes(arguments).decode()}}]
    elif REASONING in block:
        reasoning = _members(block[REASONING])
        parts = _members(reasoning.pop("reasoningText", Raw(b"{}")))
        deltas = [{REASONING: {name: part}} for name, part in (*parts.items(), *reasoning.items())]
    else:
        deltas = [block]
    for delta in deltas:
        yield _encode({"contentBlockDelta": {**position, "delta": delta}})
    yield _encode({"contentBlockStop": position})
