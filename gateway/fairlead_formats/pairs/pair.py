"""Wire format for clients that use one API and providers that have another API.

The loop of model and tools runs in the provider's format. What the loop writes for a client of that format is
translated to the client's format. Pure module, except that it reads the clock for the creation time of answers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.neutral.conversation import rename_tools
from fairlead_formats.neutral.members import decode_body, limit_parts
from fairlead_formats.neutral.provider_errors import refusal_of
from fairlead_formats.neutral.tools import translate_choice
from fairlead_formats.neutral.translation import TranslatedExchange
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.pairs.pair_answers import MAX_EVENT, PairAnswer, PairStream
from fairlead_formats.pairs.tools_for import translate_tools
from fairlead_formats.providers.openai_chat.functions.format import FunctionsFormat
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.family_format import GATEWAY_MEMBER
from fairlead_formats.wire.protocol import (
    JSON,
    AnswerRange,
    BadAnswer,
    BadRequest,
    ModelRound,
    ProviderEventParser,
    StoredTurn,
    TranslationLosses,
    WireFormat,
    WireRequest,
)
from fairlead_formats.wire.wrapped import WrappedRequest

_WINDOWS: Final = ContextWindows()
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class _AnswerState(msgspec.Struct):
    status: Any = None


_state: Final = msgspec.json.Decoder(_AnswerState).decode


class TranslatedRequest(WrappedRequest):
    """A client's request, translated to the provider's format."""

    single_call = False

    def __init__(self, inner: WireRequest, gateway_options: Raw, exchange: TranslatedExchange) -> None:
        """`inner`: the request in the provider's format; `gateway_options`: the client's member `fairlead`."""
        super().__init__(inner)
        self.gateway_options = gateway_options
        self.exchange = exchange
        self.model = exchange.request.model
        self.stream = exchange.request.stream

    @property
    def losses(self) -> TranslationLosses:
        return self.exchange.losses

    def body(self, model_round: ModelRound) -> bytes:
        members = _members(self.inner.body(model_round))
        window = _WINDOWS.window(model_round.model).context
        self.exchange.provider.requests.adapt_to_model(members, model_round.model, window, self.losses)
        return _encode(members)


class PairFormat:
    """Wire format for clients that use `front` and a provider that uses `provider`."""

    request_headers: frozenset[str] = frozenset()
    answer_headers = ("retry-after", "retry-after-ms")

    def __init__(self, front: WireFormat, provider: WireFormat) -> None:
        self._front = front
        self._provider = provider
        self._client = FAMILIES[front.name]
        self._family = FAMILIES[provider.name]
        self.name = provider.name
        self.stream_type = front.stream_type
        self.needs_call_ids = front.needs_call_ids

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> TranslatedRequest:
        decoded_body, losses = decode_body(body), TranslationLosses()
        gateway_options = decoded_body.get(GATEWAY_MEMBER, {})
        try:
            request = self._client.requests.read_request(decoded_body, model, stream, losses)
            tools = translate_tools(limit_parts(request.tools, "tools"), self._client.name, self._family.name, losses)
            turns = rename_tools(request.turns, tools.forward, tools.forward_properties)
            request = msgspec.structs.replace(request, turns=turns, array=self.stream_type == JSON)
            choice = translate_choice(request.choice, tools, losses)
            written = _encode(self._family.requests.write_request(request, tools, choice, losses))
        except (RecursionError, UnicodeError) as error:
            raise BadRequest("the body cannot be read: it is nested too deeply or holds invalid Unicode") from error
        inner = self._provider.read(written, request.model, request.stream)
        exchange = TranslatedExchange(self._client, self._family, request, tools, losses)
        return TranslatedRequest(inner, Raw(_encode(gateway_options)), exchange)

    def path(self, model: str, *, stream: bool) -> str:
        return self._provider.path(model, stream=stream)

    def answer(self, body: bytes, request: WireRequest) -> PairAnswer:
        translated = _as_translated(request)
        # not `translated.inner`, for which the format would add items for its own clients, such as calls to approve
        inner = self._provider.answer(body, translated)
        if _state(body).status == "failed":  # Responses reports failures with HTTP status 200
            raise BadAnswer("the provider's model failed to answer")
        return PairAnswer(inner, translated.exchange)

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> PairStream:
        translated = _as_translated(request)
        # never None: the family would then pass events unchanged, and their calls may interleave or split names
        inner = self._provider.stream(translated, EVERY_NAME if client_tools is None else client_tools)
        return PairStream(inner, translated.exchange, int(time.time()), self._provider.event_parser(MAX_EVENT))

    def event_parser(self, max_event: int) -> ProviderEventParser:
        return self._provider.event_parser(max_event)

    def whole_events(self, body: bytes) -> Sequence[bytes]:
        return self._provider.whole_events(body)

    def older_format(self, body: bytes) -> WireFormat | None:
        return None

    def receive(self, body: bytes) -> bytes:
        return self._front.receive(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> Sequence[AnswerRange]:
        return self._provider.answer_ranges(messages)

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        return self._provider.role_and_text(message)

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        return self._provider.restore(messages, turns)

    def error_body(self, error: LlmError) -> bytes:
        return self._front.error_body(error)

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        refused = refusal_of(*self._provider.refusal(status, body))
        status, error = self._client.errors.write_refusal(refused)
        return status, _encode(self._client.errors.refusal_body(error))

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return self._provider.remove_thoughts(body, keep_last)

    def error_in(self, body: bytes) -> bytes | None:
        return self._provider.error_in(body)


class _EveryName(Collection[str]):
    """A collection that contains every name."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


EVERY_NAME: Final = _EveryName()


_PAIRS: Final[dict[tuple[WireFormat, WireFormat], WireFormat]] = {}


def pair(front: WireFormat, provider: WireFormat) -> WireFormat:
    """The wire format of clients of `front` at a provider of `provider`. Formats are constants of
    the process, so each pair of formats is created once.
    """
    if (front, provider) not in _PAIRS:
        _PAIRS.setdefault((front, provider), _new_pair(front, provider))
    return _PAIRS[front, provider]


def _new_pair(front: WireFormat, provider: WireFormat) -> WireFormat:
    if isinstance(front, FunctionsFormat):
        return FunctionsFormat(pair(front.inner, provider), native=False)
    return PairFormat(front, provider)


def _as_translated(request: WireRequest) -> TranslatedRequest:
    if not isinstance(request, TranslatedRequest):
        raise TypeError("PairFormat can answer only requests that its `read` has returned")
    return request
