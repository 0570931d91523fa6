"""Readers and writers of message parts for all families. Each takes the family's `MessageFormat`.

Pure module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import SERVER_TOOL, THINKING, MessageFormat
from fairlead_formats.messages.call import ModelCall
from fairlead_formats.neutral.conversation import CallPart, Part, ResultPart, TextPart, call_of, valid_call
from fairlead_formats.wire.protocol import TranslationLosses

_SIGNATURES: Final = frozenset({"thoughtSignature", "thought_signature"})


def read_assistant_parts(
    entries: Sequence[object],
    messages: MessageFormat,
    losses: TranslationLosses,
    read_other: Callable[[object], Part | None],
) -> Iterator[Part]:
    """The parts of an assistant message, without reasoning, which other models cannot use, and without calls of tools
    that the provider runs. `read_other`: reads each part that is not text, a call or reasoning, or reports it as lost.
    """
    calls = iter(messages.parse_calls(list(entries)))
    for entry, part in zip(entries, messages.parts(list(entries)), strict=False):
        losses.update("thinking" if extra in _SIGNATURES else extra for extra in part.extras)
        if part.draft is not None:
            yield CallPart(valid_call(next(calls), losses))
        elif part.what == THINKING:
            losses.add("thinking")
        elif part.what == SERVER_TOOL:
            losses.add("provider_tools")
        elif part.text:
            yield TextPart(part.text)
        elif (other_part := read_other(entry)) is not None:
            yield other_part


def read_results(message: object, messages: MessageFormat) -> tuple[ResultPart, ...]:
    """The results in a message."""
    return tuple(ResultPart(result.id, result.name, result.result) for result in messages.parse_results(message))


def write_results(
    parts: Sequence[Part], calls: Mapping[str, ModelCall], messages: MessageFormat
) -> list[dict[str, Any]]:
    """Messages with the results among the parts. `calls` are the calls of the conversation by id."""
    results = [part for part in parts if isinstance(part, ResultPart)]
    written = messages.write_results([call_of(part, calls) for part in results], [part.result for part in results])
    return [*written.messages]
