"""Token counting with Gemini's API. Pure module.

Source: Google's API reference, `models.countTokens` of v1beta. The method counts `contents`, or a whole request in
`generateContentRequest`; only there it counts tools.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.gemini.parts import key_of
from fairlead_formats.providers.gemini.paths import COUNT, path_of, resource_of
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, reading_body
from fairlead_formats.wire.protocol import WireRequest

_REQUEST_MEMBERS: Final = ("generateContentRequest", "generate_content_request")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class GeminiCounting:
    """Format of the requests that count the tokens of a generateContent request."""

    wire = GEMINI_EVENTS

    def read(self, body: bytes, model: str | None) -> WireRequest:
        with reading_body():
            count_members = _members(body)
            generate_request = count_members.get(key_of(count_members, *_REQUEST_MEMBERS))
            if generate_request is not None:
                gateway_member = (
                    {GATEWAY_MEMBER: count_members[GATEWAY_MEMBER]} if GATEWAY_MEMBER in count_members else {}
                )
                body = _encode({**_members(generate_request), **gateway_member})
        return GEMINI_EVENTS.read(body, model)

    def path(self, model: str) -> str:
        return path_of(model, COUNT)

    def body(self, request: bytes, model: str) -> bytes:
        members = _members(request)
        if set(members) == {"contents"}:
            return request
        generate_request = {**members, "model": Raw(_encode(resource_of(model)))}
        return _encode({_REQUEST_MEMBERS[0]: Raw(_encode(generate_request))})

    def write(self, tokens: int) -> bytes:
        return _encode({"totalTokens": tokens})


COUNTING: Final = GeminiCounting()
