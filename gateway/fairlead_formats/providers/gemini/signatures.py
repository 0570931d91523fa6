"""Substitutes for missing thought signatures on calls. Pure module.

From Gemini 3 on, the API requires signatures in the current turn: after the user's last message, the first call in each
content of the model needs a signature. Signatures are missing in conversations from other APIs, and if a client drops
members that it does not know. Source: Google, "Thought signatures", which documents the substitute.
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

SUBSTITUTE_SIGNATURE: Final = "skip_thought_signature_validator"
"""Signature that the API accepts in place of a missing one."""
_MODELS_WITHOUT_CHECK: Final = re.compile(r"(?:^|/)(?:gemini-[12](?:[.-]|$)|gemma|learnlm)")
"""Names of models that do not check signatures."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode


def sign_calls(contents: Sequence[bytes | Raw], model: str) -> list[bytes | Raw]:
    """The contents, with the substitute where the model requires a signature and the conversation has none."""
    provider_contents = list(contents)
    if _MODELS_WITHOUT_CHECK.search(model):
        return provider_contents
    for index in range(len(provider_contents) - 1, -1, -1):
        content = decode_object(provider_contents[index])
        parts = read_parts(content)
        if content.get("role") == MODEL:
            first_call = next((part for part in parts if member(part, *CALL) is not None), None)
            if first_call is not None and not member(first_call, *SIGNATURE):
                provider_contents[index] = _sign_first_call(provider_contents[index])
        elif any(member(part, *RESPONSE) is None for part in parts):
            break  # a message of the user, which begins the current turn: earlier turns need no signatures
    return provider_contents


def _sign_first_call(raw: bytes | Raw) -> bytes:
    members = _members(raw)
    parts = _raws(members["parts"])
    for index, part in enumerate(parts):
        if member(decode_object(part), *CALL) is not None:
            others = {name: value for name, value in _members(part).items() if name not in SIGNATURE}
            parts[index] = Raw(_encode({**others, SIGNATURE[0]: SUBSTITUTE_SIGNATURE}))
            break
    return _encode({**members, "parts": Raw(array(parts))})


def remove_thoughts(body: bytes, keep_last: int) -> bytes | None:
    """The request without signatures, except in its last `keep_last` contents; None if no signature was removed. Calls
    that had a signature get the substitute.
    """
    members = _members(body)
    contents = _raws(members["contents"])
    early_count = len(contents) - keep_last
    unsigned_contents = [_remove_signatures(content) for content in contents[:early_count]]
    if unsigned_contents == contents[:early_count]:
        return None
    return _encode({**members, "contents": Raw(array([*unsigned_contents, *contents[early_count:]]))})


def _remove_signatures(raw: Raw) -> bytes | Raw:
    if not any(b'"%s"' % name.encode() in bytes(raw) for name in SIGNATURE):
        return raw
    members = _members(raw)
    parts = []
    for part in _raws(members["parts"]):
        members_of_part = _members(part)
        remaining: dict[str, object] = {name: value for name, value in members_of_part.items() if name not in SIGNATURE}
        is_signed_call = len(remaining) < len(members_of_part) and any(name in members_of_part for name in CALL)
        parts.append(
            Raw(_encode({**remaining, SIGNATURE[0]: SUBSTITUTE_SIGNATURE}))
            if is_signed_call
            else Raw(_encode(remaining))
        )
    return _encode({**members, "parts": Raw(array(parts))})
