"""Wire format of Chat Completions clients that send `functions`, OpenAI's form before `tools`. Pure module.

Requests are rewritten to `tools`, unless they can be sent unchanged, and answers to `function_call`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Raw

from fairlead_formats.providers.openai_chat.functions.answers import FunctionsAnswer, FunctionsStream
from fairlead_formats.providers.openai_chat.functions.request import FunctionsRequest, read_functions
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import AnswerRange, ProviderEventParser, StoredTurn, WireFormat, WireRequest


class FunctionsFormat:
    """Chat Completions with `functions`. The wrapped format, `inner`, is Chat Completions with `tools`, or a pair of
    that and a provider's format.
    """

    needs_call_ids = False

    def __init__(self, inner: WireFormat, *, native: bool) -> None:
        """`native`: the provider's API is Chat Completions, so a request to which the gateway adds neither tools nor
        messages is sent unchanged.
        """
        self.inner = inner
        self._native = native
        self.name = inner.name
        self.stream_type = inner.stream_type
        self.request_headers = inner.request_headers
        self.answer_headers = inner.answer_headers

    def older_format(self, body: bytes) -> WireFormat | None:
        return None

    def receive(self, body: bytes) -> bytes:
        return self.inner.receive(body)

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> WireRequest:
        return read_functions(self.inner, body, native=self._native)

    def path(self, model: str, *, stream: bool) -> str:
        return self.inner.path(model, stream=stream)

    def event_parser(self, max_event: int) -> ProviderEventParser:
        return self.inner.event_parser(max_event)

    def answer(self, body: bytes, request: WireRequest) -> FunctionsAnswer:
        return FunctionsAnswer(self.inner.answer(body, _inner_request(request)))

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> FunctionsStream:
        return FunctionsStream(self.inner.stream(_inner_request(request), client_tools))

    def whole_events(self, body: bytes) -> Sequence[bytes]:
        return self.inner.whole_events(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> Sequence[AnswerRange]:
        return self.inner.answer_ranges(messages)

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        return self.inner.role_and_text(message)

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        return self.inner.restore(messages, turns)

    def error_body(self, error: LlmError) -> bytes:
        return self.inner.error_body(error)

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        return self.inner.refusal(status, body)

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return self.inner.remove_thoughts(body, keep_last)

    def error_in(self, body: bytes) -> bytes | None:
        return self.inner.error_in(body)


def _inner_request(request: WireRequest) -> WireRequest:
    return request.inner if isinstance(request, FunctionsRequest) else request
