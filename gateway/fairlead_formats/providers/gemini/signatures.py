"""Signatures of a model's thoughts on its calls, where a conversation lacks them. Pure module.

From Gemini 3 on, a request is refused whose current turn has a step without one: the first call of each of a model's
contents behind the last thing that the user said. Conversations that came from other APIs, or through clients that drop
what they do not know, have none. Source: Google's page on thought signatures, which also gives the value that stands in
for one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import member
from fairlead_formats.providers.gemini.parts import CALL, MODEL, RESPONSE, SIGNATURE, read_parts
from fairlead_formats.wire.raw_json import array, decode_object

STAND_IN: Final = "skip_thought_signature_validator"
_UNSIGNED: Final = re.compile(r"(?:^|/)(?:gemini-[12](?:[.-]|$)|gemma|learnlm)")
"""Models that check no signatures."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode


def sign_calls(contents: Sequence[bytes | Raw], model: str) -> list[bytes | Raw]:
    """The contents, with a stand-in for each signature that the model demands and that is missing."""
    outgoing = list(contents)
    if _UNSIGNED.search(model):
        return outgoing
    for index in range(len(outgoing) - 1, -1, -1):
        content = decode_object(outgoing[index])
        parts = read_parts(content)
        if content.get("role") == MODEL:
            first = next((part for part in parts if member(part, *CALL) is not None), None)
            if first is not None and not member(first, *SIGNATURE):
                outgoing[index] = _with_substitute(outgoing[index])
        elif any(member(part, *RESPONSE) is None for part in parts):
            break  # the user said something: the turn begins here
    return outgoing


def _with_substitute(raw: bytes | Raw) -> bytes:
    members = _members(raw)
    parts = _raws(members["parts"])
    for index, part in enumerate(parts):
        if member(decode_object(part), *CALL) is not None:
            others = {name: value for name, value in _members(part).items() if name not in SIGNATURE}
            parts[index] = Raw(_encode({**others, SIGNATURE[0]: STAND_IN}))
            break
    return _encode({**members, "parts": Raw(array(parts))})


def remove_thoughts(body: bytes, keep_last: int) -> bytes | None:
    """The request with the stand-in for signatures on calls, and without signatures on other parts, except in the last
    `keep_last` contents; None where it has none.
    """
    members = _members(body)
    contents = _raws(members["contents"])
    early = len(contents) - keep_last
    unsigned = [_without_signatures(content) for content in contents[:early]]
    if unsigned == contents[:early]:
        return None
    return _encode({**members, "contents": Raw(array([*unsigned, *contents[early:]]))})


def _without_signatures(raw: Raw) -> bytes | Raw:
    if not any(b'"%s"' % name.encode() in bytes(raw) for name in SIGNATURE):
        return raw
    members = _members(raw)
    parts = []
    for part in _raws(members["parts"]):
        there = _members(part)
        left: dict[str, object] = {name: value for name, value in there.items() if name not in SIGNATURE}
        signed_call = len(left) < len(there) and any(name in there for name in CALL)
        parts.append(Raw(_encode({**left, SIGNATURE[0]: STAND_IN})) if signed_call else Raw(_encode(left)))
    return _encode({**members, "parts": Raw(array(parts))})
