"""Requests for a count of tokens: `countTokens` of v1beta, about contents alone or about a whole request. Pure module.

Tools are counted in a whole request alone, below `generateContentRequest`: beside contents the provider refuses them.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_llm.gemini.parts import key_of
from fairlead_llm.gemini.paths import resource_of
from fairlead_llm.wire import BadRequest

_WHOLE: Final = ("generateContentRequest", "generate_content_request")
_OWN: Final = "fairlead"
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def counted_request(body: bytes) -> bytes:
    """The request that a count is about, as a body of generateContent. Raises BadRequest."""
    try:
        outer = _members(body)
        inner = outer.get(key_of(outer, *_WHOLE))
        if inner is None:
            return body
        own = {_OWN: outer[_OWN]} if _OWN in outer else {}
        return _encode({**_members(inner), **own})
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body: {error}") from error


def count_body(request: bytes, model: str) -> bytes:
    """The request for a count, of a body of generateContent."""
    members = _members(request)
    if set(members) == {"contents"}:
        return request
    whole = {**members, "model": Raw(_encode(resource_of(model)))}
    return _encode({_WHOLE[0]: Raw(_encode(whole))})


def count_answer(tokens: int) -> bytes:
    """The answer with a count."""
    return _encode({"totalTokens": tokens})
