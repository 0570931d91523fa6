"""Splits a whole message of Anthropic into stream events, for providers that ignore `stream`. Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import TOOL_USE
from fairlead_formats.wire.protocol import BadAnswer

_END_MEMBERS: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
"""Members of the message that a stream sends at its end, in the `message_delta`."""
_DELTAS: Final[Mapping[str, Mapping[str, str]]] = {
    "text": {"text": "text_delta"},
    "thinking": {"thinking": "thinking_delta", "signature": "signature_delta"},
}
"""Maps types of blocks to their members that are sent as deltas, with the type of the delta."""
_EMPTY: Final = Raw(b'""')
_encode: Final = msgspec.json.Encoder().encode


class _WholeMessage(msgspec.Struct):
    content: list[dict[str, Raw]]
    stop_reason: str | None = None


_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_message: Final = msgspec.json.Decoder(_WholeMessage).decode
_raws: Final = msgspec.json.Decoder(list[Raw] | None).decode
_decode: Final = msgspec.json.Decoder().decode


def whole_events(body: bytes) -> list[bytes]:
    """Data of the events from `message_start` to `message_stop`. Raises BadAnswer."""
    try:
        members, message = _members(body), _decode_message(body)
        blocks = [event for index, block in enumerate(message.content) for event in _block_events(index, block)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the provider's answer is not a message: {error}") from error
    has_calls = any(_decode(block.get("type", b"null")) == TOOL_USE for block in message.content)
    delta = {name: members[name] for name in _END_MEMBERS if name in members}
    delta |= {"stop_reason": Raw(_encode(message.stop_reason or (TOOL_USE if has_calls else "end_turn")))}
    usage = members.get("usage", Raw(b"{}"))
    start_message: dict[str, Any] = {
        **members,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    further_members = {name: members[name] for name in ("context_management",) if name in members}
    return [
        _encode({"type": "message_start", "message": start_message}),
        *blocks,
        _encode({"type": "message_delta", "delta": delta, "usage": usage, **further_members}),
        b'{"type":"message_stop"}',
    ]


def _block_events(index: int, block: Mapping[str, Raw]) -> Iterator[bytes]:
    """Data of the events of one block. A block of a type without deltas is sent whole in its start event."""
    kind = str(_decode(block.get("type", b"null")))
    start: dict[str, Any] = dict(block)
    deltas: list[dict[str, Any]] = []
    for name, delta_type in _DELTAS.get(kind, {}).items():
        if name in block:
            start[name] = _EMPTY
            deltas.append({"type": delta_type, name: block[name]})
    if kind == "text":
        citations = _raws(start.pop("citations", b"null")) or []
        deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
    if kind == TOOL_USE:
        start["input"] = {}
        deltas.append({"type": "input_json_delta", "partial_json": bytes(block.get("input", b"{}")).decode()})
    yield _encode({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield _encode({"type": "content_block_delta", "index": index, "delta": delta})
    yield _encode({"type": "content_block_stop", "index": index})
