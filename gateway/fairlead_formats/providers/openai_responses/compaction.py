"""Compaction of a conversation by OpenAI's Responses API: one encrypted item replaces all answers. Pure module.

Source: OpenAI's API reference, `POST /v1/responses/compact`. The endpoint takes no tools and refuses unknown members.
The gateway does not store the answer, because clients send its output as the `input` of their next request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_chat.api import COMPACT
from fairlead_formats.providers.openai_responses.answer import ResponsesAnswer
from fairlead_formats.providers.openai_responses.format import ResponsesFormat
from fairlead_formats.providers.openai_responses.items import encode, new_id
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.wire.family_format import reading_body
from fairlead_formats.wire.protocol import BadRequest, LoopResult, WireRequest

NEEDS_RESPONSES: Final = (
    "only providers with OpenAI's Responses API compact conversations: name a model of such a provider (`responses: "
    "true` in the file of providers), or shorten `input` yourself"
)


class _NamedModel(msgspec.Struct):
    model: str | None = None


_decode_model: Final = msgspec.json.Decoder(_NamedModel).decode


def require_model(body: bytes, path: str) -> None:
    """Raise BadRequest for a request without a model. OpenAI does not require a model at `path`, but the gateway
    chooses the provider by it.
    """
    with reading_body():
        request = _decode_model(body)
    if not request.model:
        raise BadRequest(f"model: {path} needs a model, because the gateway chooses the provider by it", "model")


class CompactionRequest(ResponsesRequest):
    """A client's request to compact a conversation."""

    def __init__(self, body: bytes) -> None:
        """Raises BadRequest."""
        require_model(body, COMPACT)
        super().__init__(body)
        if self.stream:
            raise BadRequest(f"stream: {COMPACT} has no streams: leave `stream` out", "stream")
        self.no_injection = True
        self.gateway_stores = False
        self._refuse_approvals()

    def resume(self, previous_id: str | None, pending_approvals: Sequence[bytes]) -> None:
        super().resume(previous_id, pending_approvals)
        self._refuse_approvals()

    def _refuse_approvals(self) -> None:
        """Raise BadRequest for a request that approves calls, which compaction does not run."""
        if self.approved_calls:
            raise BadRequest(
                f"input: {COMPACT} runs no approved calls: send the approvals to /v1/responses, then compact",
                "input",
            )


class CompactionAnswer(ResponsesAnswer):
    """The provider's compacted conversation. The gateway runs none of its calls: these ran before the compaction."""

    def __init__(self, body: bytes, request: WireRequest) -> None:
        """Raises BadAnswer."""
        super().__init__(body, request)
        self.message = {"object": "response", "output": []}

    def write(self, loop: LoopResult) -> bytes:
        """The answer with an id of the gateway: the provider's id would work for every user of the same API key."""
        extra_members = {name: Raw(encode(value)) for name, value in loop.extra_members.items()}
        return encode({**self.members, "id": Raw(encode(new_id("resp"))), **extra_members})


class CompactionFormat(ResponsesFormat):
    """Wire format of requests to compact a conversation."""

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> CompactionRequest:
        return CompactionRequest(body)

    def path(self, model: str, *, stream: bool) -> str:
        return COMPACT.removeprefix("/v1")

    def answer(self, body: bytes, request: WireRequest) -> CompactionAnswer:
        return CompactionAnswer(body, request)


COMPACTION: Final = CompactionFormat()
