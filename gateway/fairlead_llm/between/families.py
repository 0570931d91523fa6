"""The families of wire formats, each with its readers and writers. Pure module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.registry import OPENAI_CHAT, OPENAI_RESPONSES
from fairlead_llm.between import provider_errors
from fairlead_llm.between.answers import EventReader, EventWriter, ReportedUsage, TranslatedAnswer
from fairlead_llm.between.anthropic import answer as anthropic_answer
from fairlead_llm.between.anthropic import events as anthropic_events
from fairlead_llm.between.anthropic import messages as anthropic_messages
from fairlead_llm.between.anthropic import request as anthropic_request
from fairlead_llm.between.chat import answer as chat_answer
from fairlead_llm.between.chat import events as chat_events
from fairlead_llm.between.chat import messages as chat_messages
from fairlead_llm.between.chat import request as chat_request
from fairlead_llm.between.conversation import MessageTurn, NeutralRequest, ToolChoice, WrittenTurns
from fairlead_llm.between.gemini import answer as gemini_answer
from fairlead_llm.between.gemini import events as gemini_events
from fairlead_llm.between.gemini import messages as gemini_messages
from fairlead_llm.between.gemini import request as gemini_request
from fairlead_llm.between.losses import TranslationLosses
from fairlead_llm.between.responses import answer as responses_answer
from fairlead_llm.between.responses import events as responses_events
from fairlead_llm.between.responses import messages as responses_messages
from fairlead_llm.between.responses import request as responses_request
from fairlead_llm.between.tools_for import TranslatedTools


class FamilyTranslation(msgspec.Struct, frozen=True, kw_only=True):
    """Readers and writers of one family. `TranslationLosses` collects what has no place."""

    name: str
    """Name of its format in `fairlead_formats.registry`."""
    errors: provider_errors.Family
    messages: str
    """Member of a request that holds its messages."""
    read_request: Callable[[Mapping[str, Any], str | None, bool | None, TranslationLosses], NeutralRequest]
    """A client's request; model and stream are those of the path. Raises BadRequest."""
    write_request: Callable[[NeutralRequest, TranslatedTools, ToolChoice | None, TranslationLosses], dict[str, Any]]
    """A provider's request. Raises BadRequest."""
    settle: Callable[[dict[str, Raw], str, TranslationLosses], None]
    """Changes members of a provider's request by its model."""
    read_messages: Callable[[Sequence[object], TranslationLosses], tuple[MessageTurn, ...]]
    write_messages: Callable[[Sequence[MessageTurn], TranslationLosses], WrittenTurns]
    read_answer: Callable[[Mapping[str, Any], TranslationLosses], TranslatedAnswer]
    write_answer: Callable[[TranslatedAnswer, ReportedUsage, NeutralRequest, TranslationLosses], dict[str, Any]]
    read_usage: Callable[[Mapping[str, Any]], ReportedUsage]
    reader: Callable[[TranslationLosses], EventReader]
    writer: Callable[[NeutralRequest, int, TranslationLosses], EventWriter]
    """Writer of a stream that answers a request, created at a time in seconds since 1970."""


FAMILIES: Final[Mapping[str, FamilyTranslation]] = {
    family.name: family
    for family in (
        FamilyTranslation(
            name=OPENAI_CHAT,
            errors="openai",
            messages="messages",
            read_request=chat_request.read_request,
            write_request=chat_request.write_request,
            settle=chat_request.settle,
            read_messages=chat_messages.read_messages,
            write_messages=chat_messages.write_messages,
            read_answer=chat_answer.read_answer,
            write_answer=chat_answer.write_answer,
            read_usage=chat_answer.read_usage,
            reader=chat_events.ChatEventReader,
            writer=chat_events.ChatEventWriter,
        ),
        FamilyTranslation(
            name=OPENAI_RESPONSES,
            errors="openai",
            messages="input",
            read_request=responses_request.read_request,
            write_request=responses_request.write_request,
            settle=responses_request.settle,
            read_messages=responses_messages.read_messages,
            write_messages=responses_messages.write_messages,
            read_answer=responses_answer.read_answer,
            write_answer=responses_answer.write_answer,
            read_usage=responses_answer.read_usage,
            reader=responses_events.ResponsesEventReader,
            writer=responses_events.ResponsesEventWriter,
        ),
        FamilyTranslation(
            name=anthropic_messages.NAME,
            errors="anthropic",
            messages="messages",
            read_request=anthropic_request.read_request,
            write_request=anthropic_request.write_request,
            settle=anthropic_request.settle,
            read_messages=anthropic_messages.read_messages,
            write_messages=anthropic_messages.write_messages,
            read_answer=anthropic_answer.read_answer,
            write_answer=anthropic_answer.write_answer,
            read_usage=anthropic_answer.read_usage,
            reader=anthropic_events.AnthropicEventReader,
            writer=anthropic_events.AnthropicEventWriter,
        ),
        FamilyTranslation(
            name=gemini_messages.NAME,
            errors="gemini",
            messages="contents",
            read_request=gemini_request.read_request,
            write_request=gemini_request.write_request,
            settle=gemini_request.settle,
            read_messages=gemini_messages.read_messages,
            write_messages=gemini_messages.write_messages,
            read_answer=gemini_answer.read_answer,
            write_answer=gemini_answer.write_answer,
            read_usage=gemini_answer.read_usage,
            reader=gemini_events.GeminiEventReader,
            writer=gemini_events.GeminiEventWriter,
        ),
    )
}
"""By the name of the format."""
