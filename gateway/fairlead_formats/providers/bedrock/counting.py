"""Token counting with Bedrock's API. Pure module.

Source: Amazon Bedrock API reference, CountTokens, which accepts only those members of a Converse request that the model
reads.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.bedrock.format import BEDROCK
from fairlead_formats.providers.bedrock.paths import COUNT, path_of
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, reading_body
from fairlead_formats.wire.protocol import BadRequest, WireRequest

_COUNTED_MEMBERS: Final = ("messages", "system", "toolConfig", "additionalModelRequestFields")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class BedrockCounting:
    """Format of the requests that count the tokens of a Converse request."""

    wire = BEDROCK

    def read(self, body: bytes, model: str | None) -> WireRequest:
        with reading_body():
            count_members = _members(body)
            request_input = _members(count_members.get("input", b"{}"))
            if "converse" not in request_input:
                raise BadRequest("input: the gateway counts only requests of Converse; send `input.converse`", "input")
            converse_members = _members(request_input["converse"])
        if GATEWAY_MEMBER in count_members:
            converse_members[GATEWAY_MEMBER] = count_members[GATEWAY_MEMBER]
        return BEDROCK.read(_encode(converse_members), model, False)

    def path(self, model: str) -> str:
        return path_of(model, COUNT)

    def body(self, request: bytes, model: str) -> bytes:
        members = {name: raw for name, raw in _members(request).items() if name in _COUNTED_MEMBERS}
        return _encode({"input": {"converse": members}})

    def write(self, tokens: int) -> bytes:
        return _encode({"inputTokens": tokens})


COUNTING: Final = BedrockCounting()
