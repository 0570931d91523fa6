"""Token counting with Anthropic's API. Pure module.

Source: Anthropic's API reference, `POST /v1/messages/count_tokens`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_formats.providers.anthropic.api import COUNT_TOKENS
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.wire.protocol import WireRequest


class AnthropicCounting:
    """Format of the requests that count the tokens of an Anthropic Messages request."""

    wire = ANTHROPIC

    def read(self, body: bytes, model: str | None) -> WireRequest:
        return ANTHROPIC.read(body, model)

    def path(self, model: str) -> str:
        return COUNT_TOKENS

    def body(self, request: bytes, model: str) -> bytes:
        return request

    def write(self, tokens: int) -> bytes:
        return msgspec.json.encode({"input_tokens": tokens})


COUNTING: Final = AnthropicCounting()
