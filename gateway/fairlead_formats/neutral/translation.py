"""Interfaces that a family of APIs implements to convert its requests, answers and errors from and to neutral form.

Pure module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from fairlead_formats.neutral.answers import EventReader, EventWriter, ReportedUsage, TranslatedAnswer
from fairlead_formats.neutral.conversation import MessageTurn, NeutralRequest, ToolChoice, WrittenTurns
from fairlead_formats.neutral.provider_errors import ProviderRefusal
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.wire.protocol import TranslationLosses


class RequestTranslation(Protocol):
    """Reads and writes a family's requests. `losses` collects what the other format does not have."""

    def read_request(
        self, body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses, /
    ) -> NeutralRequest:
        """Read a client's request. `model` and `stream` come from the path, if it has them. Raises BadRequest."""

    def write_request(
        self, request: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses, /
    ) -> dict[str, Any]:
        """Write a request to the provider. Raises BadRequest."""

    def adapt_to_model(self, members: dict[str, Raw], model: str, window: int, losses: TranslationLosses, /) -> None:
        """Adapt members of a request to the model and to its context window, in tokens."""


class MessageTranslation(Protocol):
    """Reads and writes a family's messages."""

    def read_messages(self, messages: Sequence[object], losses: TranslationLosses, /) -> tuple[MessageTurn, ...]:
        """Read a list of messages as turns. Raises BadRequest."""

    def write_messages(self, turns: Sequence[MessageTurn], losses: TranslationLosses, /) -> WrittenTurns:
        """Write turns as messages."""


class AnswerTranslation(Protocol):
    """Reads and writes a family's whole answers."""

    def read_answer(self, body: Mapping[str, Any], losses: TranslationLosses, /) -> TranslatedAnswer:
        """Read a provider's answer."""

    def write_answer(
        self, answer: TranslatedAnswer, usage: ReportedUsage, request: NeutralRequest, losses: TranslationLosses, /
    ) -> dict[str, Any]:
        """Write the body of an answer to a client."""

    def read_usage(self, usage: Mapping[str, Any], /) -> ReportedUsage:
        """Read a provider's token usage."""


class ErrorTranslation(Protocol):
    """Writes a family's errors."""

    def write_refusal(self, refusal: ProviderRefusal, /) -> tuple[int, dict[str, Any]]:
        """HTTP status and `error` object, in this family's form, for an error of another family."""

    def refusal_body(self, error: Mapping[str, Any], /) -> dict[str, Any]:
        """Body of an error response with this `error` object."""


class FamilyTranslation(msgspec.Struct, frozen=True):
    """Readers and writers of one family. Most are modules; readers and writers of streams are classes, because a stream
    has state.
    """

    name: str
    """Name of the family's format in `fairlead_formats.registry`."""
    errors: ErrorTranslation
    messages_member: str
    """Member of a request with its messages."""
    requests: RequestTranslation
    messages: MessageTranslation
    answers: AnswerTranslation
    reader: Callable[[TranslationLosses], EventReader]
    """Creates the reader of a provider's stream."""
    writer: Callable[[NeutralRequest, int, TranslationLosses], EventWriter]
    """Creates the writer of a client's stream, from the request and the creation time in seconds since 1970."""


class TranslatedExchange(msgspec.Struct, frozen=True):
    """One request from a client of one family to a provider of another family, with the state for its answer."""

    client: FamilyTranslation
    provider: FamilyTranslation
    request: NeutralRequest
    tools: TranslatedTools
    """The client's tools in the provider's form."""
    losses: TranslationLosses
    """Losses in the translation of the request, and later in the translation of its answer."""
