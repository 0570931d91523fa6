"""Token counting with OpenAI's Responses API. Pure module.

Source: OpenAI's API reference, `POST /v1/responses/input_tokens`. A count request has the members of a request for a
response, except for those that concern the output.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_formats.providers.openai_chat.api import INPUT_TOKENS
from fairlead_formats.providers.openai_responses.compaction import require_model
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.providers.openai_responses.request import ResponsesRequest


class ResponsesCounting:
    """Format of the requests that count the tokens of an OpenAI Responses request."""

    wire = RESPONSES

    def read(self, body: bytes, model: str | None) -> ResponsesRequest:
        require_model(body, INPUT_TOKENS)
        return RESPONSES.read(body)

    def path(self, model: str) -> str:
        return INPUT_TOKENS.removeprefix("/v1")

    def body(self, request: bytes, model: str) -> bytes:
        return request

    def write(self, tokens: int) -> bytes:
        return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": tokens})


COUNTING: Final = ResponsesCounting()
