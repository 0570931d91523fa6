"""Base class of all message formats, and the parts of messages that they read.

Pure module. Each format is a `MessageFormat` in a folder of `providers`; `registry` has all formats by name. A format
reads every part of a message, not only calls and results, so that parts which another format lacks can be reported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_formats.messages.call import (
    DEFAULT_CARRY,
    Carry,
    Draft,
    McpResult,
    ModelCall,
    ResultLoss,
    ToolResult,
    WrittenMessages,
    finish,
    invalid_result,
    is_truncated,
    mark_cut_off,
)
from fairlead_formats.messages.content import Accept, Body, LossReport, body_of
from fairlead_formats.messages.streams import Assembler, WholeAssembler
from fairlead_formats.names import Names
from fairlead_formats.tool_format import JsonObject

MAX_LOSSES: Final = 1000
"""Maximum number of entries in one report about message parts that are neither calls nor results."""

TEXT: Final = "text"
THINKING: Final = "thinking"
SERVER_TOOL: Final = "server_tool"
BLOCK: Final = "block"


class Part(msgspec.Struct, frozen=True):
    """One part of a model's message."""

    path: str
    """JSON Pointer (RFC 6901) into the message."""
    what: str
    """`call`, `text`, `thinking`, `server_tool` (a tool that the provider ran itself, or its result), or `block`."""
    text: str = ""
    draft: Draft | None = None
    """The unchecked call, for a part that is a call."""
    extras: tuple[str, ...] = ()
    """Members of the part that other formats do not have."""


class AnswerPart(msgspec.Struct, frozen=True):
    """One part of the messages that follow a model's message."""

    path: str
    result: ToolResult | None = None
    """The result; None for a part that is not a result."""
    extras: tuple[str, ...] = ()
    """Members of the part that other formats do not have."""


def call_part(path: str, draft: Draft, extras: tuple[str, ...] = ()) -> Part:
    """A part that is a call."""
    return Part(path, "call", draft=draft, extras=extras)


def extras(value: object, *standard: str) -> tuple[str, ...]:
    """Names of members that are not in `standard` and whose value is not null, empty or false."""
    if not isinstance(value, (dict, Mapping)):
        return ()
    return tuple(
        str(key)[:64] for key, item in value.items() if key not in standard and item not in (None, "", [], {}, False)
    )


def with_paths(path: str, entries: Iterable[object]) -> list[tuple[str, object]]:
    """Each entry of a list with its JSON Pointer."""
    return [(f"{path}/{index}", entry) for index, entry in enumerate(entries)]


class Answers:
    """Results of one message's calls, to be written in a format."""

    def __init__(self, calls: Sequence[ModelCall], results: Sequence[McpResult | None]) -> None:
        """`results[i]` is the result of `calls[i]`. Raises ValueError if the lengths differ."""
        if len(calls) != len(results):
            raise ValueError(f"{len(calls)} calls need {len(calls)} results, not {len(results)}")
        self.results: list[tuple[ModelCall, McpResult]] = []
        self.pending: list[str] = []
        """Ids of valid calls without a result, which the caller of the conversion has to answer."""
        self.losses: list[ResultLoss] = []
        for call, result in zip(calls, results, strict=True):
            if result is not None:
                self.results.append((call, result))
            elif not call.valid:
                self.results.append((call, invalid_result(call)))
            else:
                self.pending.append(call.id)

    def bodies(self, accept: Accept) -> Iterator[tuple[ModelCall, Body, LossReport]]:
        """Each call with its parsed result and a report of losses. Media that `accept` refuses become text. The format
        that writes the result adds its own losses to the report.
        """
        for call, result in self.results:
            report = LossReport(call)
            yield call, body_of(result, report, accept), report
            self.losses.extend(report.losses)


class MessageFormat(ABC):
    """One provider's format of calls and results."""

    holds_text: bool = True
    """Whether a message can hold text next to its calls."""

    holds_freeform: bool = False
    """Whether a call can have plain text in place of JSON arguments (OpenAI's custom tools)."""

    @abstractmethod
    def parts(self, message: object) -> Iterable[Part]:
        """All parts of a message. Never raises for its content."""

    def drafts(self, message: object) -> Iterable[Draft]:
        """The unchecked calls of a message. Never raises for its content."""
        return (part.draft for part in self.parts(message) if part.draft is not None)

    def assembler(self, names: Names | None = None) -> Assembler:
        """An assembler for the calls of one streamed message. `names`: names of the tools in the request."""
        return WholeAssembler(self.drafts, names)

    def write_id(self, ident: str) -> str:
        """The id of a call in this format: the id itself, or its `substitute_id` if the format does not allow it.
        Results are matched to calls by either id (`OpenCalls`).
        """
        return ident

    @abstractmethod
    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        """The model's message with `text` and the valid calls. `names`: names of the tools in the request."""

    @abstractmethod
    def request_messages(self, message: object) -> list[JsonObject]:
        """A model's message, in the form in which the next request repeats it; empty if no request can hold it."""

    @abstractmethod
    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        """The messages with these results."""

    @abstractmethod
    def answers(self, messages: object) -> Iterable[AnswerPart]:
        """All parts of a message or of a list of messages, in order. Never raises for their content."""

    def parse_results(self, messages: object) -> list[ToolResult]:
        """The results in a message or a list of messages, in order. Never raises for their content."""
        return [answer.result for answer in self.answers(messages) if answer.result is not None]

    def parse_calls(
        self, message: object, names: Names | None = None, *, truncated: bool | None = None
    ) -> list[ModelCall]:
        """The calls of a model's message, in order; empty without calls. `message` is decoded JSON: a whole response, a
        part of a response that contains the message, the message, or its list of parts. Never raises for its content.

        `truncated`: whether the message may lack its end; None: the stop reason in `message` decides. In a truncated
        message a last call without arguments is invalid.
        """
        drafts = [*self.drafts(message)]
        if drafts and (is_truncated(message) if truncated is None else truncated):
            drafts[-1] = mark_cut_off(drafts[-1])
        return finish(drafts, names)

    def write_results(
        self, calls: Sequence[ModelCall], results: Sequence[McpResult | None], carry: Carry = DEFAULT_CARRY
    ) -> WrittenMessages:
        """The messages that answer `calls`, where `results[i]` belongs to `calls[i]`. For a result of None, an invalid
        call is answered with its reason, and a valid call is left pending. Raises ValueError if the lengths differ.
        """
        answers = Answers(calls, results)
        messages = tuple(self.write_answers(answers, carry))
        return WrittenMessages(messages, tuple(answers.losses), tuple(answers.pending))
