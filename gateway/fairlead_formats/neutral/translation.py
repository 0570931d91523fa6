"""Reader and writer of one family's requests, messages and answers, as each family declares them. Pure module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from fairlead_formats.neutral.answers import EventReader, EventWriter, ReportedUsage, TranslatedAnswer
from fairlead_formats.neutral.conversation import MessageTurn, NeutralRequest, ToolChoice, WrittenTurns
from fairlead_formats.neutral.provider_errors import ProviderRefusal
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.wire.losses import TranslationLosses


class RequestTranslation(Protocol):
    """Reader and writer of a family's requests. `TranslationLosses` collects what has no place."""

    def read_request(
        self, body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses, /
    ) -> NeutralRequest:
        """A client's request; model and stream are those of the path. Raises BadRequest."""

    def write_request(
        self, request: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses, /
    ) -> dict[str, Any]:
        """A provider's request. Raises BadRequest."""

    def settle(self, members: dict[str, Raw], model: str, window: int, losses: TranslationLosses, /) -> None:
        """Change members of a provider's request by its model and the tokens of that model's window."""


class MessageTranslation(Protocol):
    """Reader and writer of a family's messages."""

    def read_messages(self, messages: Sequence[object], losses: TranslationLosses, /) -> tuple[MessageTurn, ...]:
        """The turns of a list of messages. Raises BadRequest."""

    def write_messages(self, turns: Sequence[MessageTurn], losses: TranslationLosses, /) -> WrittenTurns:
        """The turns as messages."""


class AnswerTranslation(Protocol):
    """Reader and writer of a family's whole answers."""

    def read_answer(self, body: Mapping[str, Any], losses: TranslationLosses, /) -> TranslatedAnswer:
        """A provider's answer."""

    def write_answer(
        self, answer: TranslatedAnswer, usage: ReportedUsage, request: NeutralRequest, losses: TranslationLosses, /
    ) -> dict[str, Any]:
        """The body of an answer for a client."""

    def read_usage(self, usage: Mapping[str, Any], /) -> ReportedUsage:
        """Usage as a provider states it."""


class ErrorTranslation(Protocol):
    """Writer of a family's errors."""

    def write_refusal(self, refusal: ProviderRefusal, /) -> tuple[int, dict[str, Any]]:
        """The status and the object `error` of a refusal that came from another family."""

    def refusal_body(self, error: Mapping[str, Any], /) -> dict[str, Any]:
        """The body of a refusal with this object `error`."""


class FamilyTranslation(msgspec.Struct, frozen=True):
    """Readers and writers of one family: modules, and classes of streams."""

    name: str
    """Name of its format in `fairlead_formats.registry`."""
    errors: ErrorTranslation
    messages_member: str
    """Member of a request that holds its messages."""
    requests: RequestTranslation
    messages: MessageTranslation
    answers: AnswerTranslation
    reader: Callable[[TranslationLosses], EventReader]
    writer: Callable[[NeutralRequest, int, TranslationLosses], EventWriter]
    """Writer of a stream that answers a request, created at a time in seconds since 1970."""


class TranslatedExchange(msgspec.Struct, frozen=True):
    """One request between two families, and what its answer is written with."""

    client: FamilyTranslation
    provider: FamilyTranslation
    request: NeutralRequest
    tools: TranslatedTools
    """The client's own tools as the provider has them."""
    losses: TranslationLosses
    """Grow until the answer is written."""
