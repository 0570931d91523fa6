"""Wire format for clients that use one API and providers that have another API.

The loop of model and tools runs in the provider's format. What the loop writes is
then translated to the client's format. Pure module, except that it reads the clock for the creation time of answers.
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


_decode_state: Final = msgspec.json.Decoder(_AnswerState).decode


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
    """Wire format for clients that use `client_format` and a provider that uses `provider_format`."""

    request_headers: frozenset[str] = frozenset()
    answer_headers = ("retry-after", "retry-after-ms")

    def __init__(self, client_format: WireFormat, provider_format: WireFormat) -> None:
        self._client_format = client_format
        self._provider_format = provider_format
        self._client_family = FAMILIES[client_format.name]
        self._provider_family = FAMILIES[provider_format.name]
        self.name = provider_format.name
        self.stream_type = client_format.stream_type
        self.needs_call_ids = client_format.needs_call_ids

    def read(self, body: bytes, model: str | None = None, stream: bool | None = None) -> TranslatedRequest:
        decoded_body, losses = decode_body(body), TranslationLosses()
        gateway_options = decoded_body.get(GATEWAY_MEMBER, {})
        try:
            request = self._client_family.requests.read_request(decoded_body, model, stream, losses)
            tools = translate_tools(
                limit_parts(request.tools, "tools"), self._client_family.name, self._provider_family.name, losses
            )
            turns = rename_tools(request.turns, tools.forward, tools.forward_properties)
            request = msgspec.structs.replace(request, turns=turns, array=self.stream_type == JSON)
            choice = translate_choice(request.choice, tools, losses)
            provider_body = _encode(self._provider_family.requests.write_request(request, tools, choice, losses))
        except (RecursionError, UnicodeError) as error:
            raise BadRequest("the body cannot be read: it is nested too deeply or holds invalid Unicode") from error
        inner = self._provider_format.read(provider_body, request.model, request.stream)
        exchange = TranslatedExchange(self._client_family, self._provider_family, request, tools, losses)
        return TranslatedRequest(inner, Raw(_encode(gateway_options)), exchange)

    def path(self, model: str, *, stream: bool) -> str:
        return self._provider_format.path(model, stream=stream)

    def answer(self, body: bytes, request: WireRequest) -> PairAnswer:
        translated_request = _as_translated(request)
        # not `translated_request.inner`, which would make the format add items for its own clients, such as approvals
        inner = self._provider_format.answer(body, translated_request)
        if _decode_state(body).status == "failed":  # Responses reports failures with HTTP status 200
            raise BadAnswer("the provider's model failed to answer")
        return PairAnswer(inner, translated_request.exchange)

    def stream(self, request: WireRequest, client_tools: Collection[str] | None) -> PairStream:
        translated_request = _as_translated(request)
        # never None: the family would then pass events unchanged, and their calls may interleave or split names
        inner = self._provider_format.stream(translated_request, EVERY_NAME if client_tools is None else client_tools)
        return PairStream(
            inner, translated_request.exchange, int(time.time()), self._provider_format.event_parser(MAX_EVENT)
        )

    def event_parser(self, max_event: int) -> ProviderEventParser:
        return self._provider_format.event_parser(max_event)

    def whole_events(self, body: bytes) -> Sequence[bytes]:
        return self._provider_format.whole_events(body)

    def older_format(self, body: bytes) -> WireFormat | None:
        return None

    def receive(self, body: bytes) -> bytes:
        return self._client_format.receive(body)

    def answer_ranges(self, messages: Sequence[bytes | Raw]) -> Sequence[AnswerRange]:
        return self._provider_format.answer_ranges(messages)

    def role_and_text(self, message: bytes | Raw) -> tuple[str, str]:
        return self._provider_format.role_and_text(message)

    def restore(self, messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
        return self._provider_format.restore(messages, turns)

    def error_body(self, error: LlmError) -> bytes:
        return self._client_format.error_body(error)

    def refusal(self, status: int, body: bytes) -> tuple[int, bytes]:
        refusal = refusal_of(*self._provider_format.refusal(status, body))
        status, error = self._client_family.errors.write_refusal(refusal)
        return status, _encode(self._client_family.errors.refusal_body(error))

    def remove_thoughts(self, body: bytes, keep_last: int) -> bytes | None:
        return self._provider_format.remove_thoughts(body, keep_last)

    def error_in(self, body: bytes) -> bytes | None:
        return self._provider_format.error_in(body)


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


def pair(client_format: WireFormat, provider_format: WireFormat) -> WireFormat:
    """The wire format for clients that use `client_format` and a provider that uses `provider_format`. Each pair is
    created once and never freed: formats are constants of the process.
    """
    if (client_format, provider_format) not in _PAIRS:
        _PAIRS.setdefault((client_format, provider_format), _new_pair(client_format, provider_format))
    return _PAIRS[client_format, provider_format]


def _new_pair(client_format: WireFormat, provider_format: WireFormat) -> WireFormat:
    if isinstance(client_format, FunctionsFormat):
        return FunctionsFormat(pair(client_format.inner, provider_format), native=False)
    return PairFormat(client_format, provider_format)


def _as_translated(request: WireRequest) -> TranslatedRequest:
    if not isinstance(request, TranslatedRequest):
        raise TypeError("PairFormat can answer only requests that its `read` has returned")
    return request
