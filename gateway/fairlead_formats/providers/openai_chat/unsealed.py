"""Requests without the signed thoughts that some compatible servers put into messages: Google's on calls
(`extra_content`), and lists of details or blocks. Pure module.

Source: Google's page on thought signatures, "OpenAI compatibility".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_chat.calls import TOOL_CALLS
from fairlead_formats.wire.raw_json import array

STAND_IN: Final = "skip_thought_signature_validator"
_EXTRA: Final = "extra_content"
_LISTS: Final = ("reasoning_details", "thinking_blocks")
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


def without_thoughts(body: bytes, kept: int) -> bytes | None:
    """The request without them, but for its last `kept` messages; None where there are none."""
    members = _members(body)
    messages = _raws(members["messages"])
    early = len(messages) - kept
    found = [_unsealed(message) for message in messages[:early]]
    if found == messages[:early]:
        return None
    return _encode({**members, "messages": Raw(array([*found, *messages[early:]]))})


def _unsealed(raw: Raw) -> bytes | Raw:
    if not any(b'"%s"' % name.encode() in bytes(raw) for name in (_EXTRA, *_LISTS)):
        return raw
    members: dict[str, Any] = {name: value for name, value in _members(raw).items() if name not in _LISTS}
    calls = members.get(TOOL_CALLS)
    if calls is not None and bytes(calls)[:1] == b"[":
        members[TOOL_CALLS] = [_unsigned(call) for call in _raws(calls)]
    return _encode(members)


def _unsigned(call: Raw) -> Raw:
    members = _members(call)
    if _EXTRA not in members:
        return call
    return Raw(_encode({**members, _EXTRA: {"google": {"thought_signature": STAND_IN}}}))
