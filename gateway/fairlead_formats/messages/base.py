"""Base of all message formats, and the parts that they read: calls and results, and all else that a message holds.

Pure module. Each form is a `MessageFormat` in a folder of `providers`; `registry` has them by name. It reads every part
of a message, so that what another format cannot hold is reported.
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
    Written,
    finish,
    invalid_result,
)
from fairlead_formats.messages.content import Accept, Body, LossReport, body_of
from fairlead_formats.messages.streams import Assembler, WholeAssembler
from fairlead_formats.names import Names
from fairlead_formats.tool_format import JsonObject

MAX_LOSSES: Final = 1000
"""Lines of one report about what is beside calls and results."""

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
    extras: tuple[str, ...] = ()
    """Members of the part that other formats have no place for."""


class AnswerPart(msgspec.Struct, frozen=True):
    """One part of the messages that answer a model's message."""

    path: str
    result: ToolResult | None = None
    """None for a part that is not a result."""
    extras: tuple[str, ...] = ()


def call_part(path: str, draft: Draft, extras: tuple[str, ...] = ()) -> Part:
    """A call as a part."""
    return Part(path, "call", draft=draft, extras=extras)


def extras(value: object, *standard: str) -> tuple[str, ...]:
    """Names of members that are not among the `standard` ones and have a value: not null, empty or false."""
    if not isinstance(value, Mapping):
        return ()
    return tuple(
        str(key)[:64] for key, item in value.items() if key not in standard and item not in (None, "", [], {}, False)
    )


def with_paths(path: str, entries: Iterable[object]) -> list[tuple[str, object]]:
    """The entries of a list, each with its path."""
    return [(f"{path}/{index}", entry) for index, entry in enumerate(entries)]


class Answers:
    """Results of the calls of one message, for the format that writes them."""

    def __init__(self, calls: Sequence[ModelCall], results: Sequence[McpResult | None]) -> None:
        """Raises ValueError where the lengths differ."""
        if len(calls) != len(results):
            raise ValueError(f"{len(calls)} calls need {len(calls)} results, not {len(results)}")
        self.results: list[tuple[ModelCall, McpResult]] = []
        self.pending: list[str] = []
        """Ids of the calls that the caller answers."""
        self.losses: list[ResultLoss] = []
        for call, result in zip(calls, results, strict=True):
            if result is not None:
                self.results.append((call, result))
            elif not call.valid:
                self.results.append((call, invalid_result(call)))
            else:
                self.pending.append(call.id)

    def bodies(self, accept: Accept) -> Iterator[tuple[ModelCall, Body, LossReport]]:
        """Each call with its result, read: media that `accept` refuses are text. The report takes what the format loses
        besides.
        """
        for call, result in self.results:
            report = LossReport(call)
            yield call, body_of(result, report, accept), report
            self.losses.extend(report.losses)


class MessageFormat(ABC):
    """One provider's form of calls and results."""

    holds_text: bool = True
    """Whether a message has a place for text beside its calls."""

    holds_freeform: bool = False
    """Whether a call may have text in place of arguments."""

    @abstractmethod
    def parts(self, message: object) -> Iterable[Part]:
        """All parts of a message. Never raises for what it holds."""

    def drafts(self, message: object) -> Iterable[Draft]:
        """The calls of a message, unchecked. Never raises for what it holds."""
        return (part.draft for part in self.parts(message) if part.draft is not None)

    def assembler(self, names: Names | None = None) -> Assembler:
        """Puts the calls of one streamed message together; `names` are those of the request."""
        return WholeAssembler(self.drafts, names)

    def write_id(self, ident: str) -> str:
        """The id of a call in this format: itself or its `substitute_id`. `OpenCalls` matches results by either."""
        return ident

    @abstractmethod
    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        """The message of a model that says `text` and makes these calls. Invalid ones are left out."""

    @abstractmethod
    def request_messages(self, message: object) -> list[JsonObject]:
        """A model's message as it stands in the next request, unchanged; empty where no request can hold it."""

    @abstractmethod
    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        """The messages that hold these answers."""

    @abstractmethod
    def answers(self, messages: object) -> Iterable[AnswerPart]:
        """All parts of one message or of a list of messages, in their order. Never raises for what they hold."""

    def parse_results(self, messages: object) -> list[ToolResult]:
        """The results in one message or a list of them, in their order. Never raises for what they hold."""
        return [answer.result for answer in self.answers(messages) if answer.result is not None]

    def parse_calls(self, message: object, names: Names | None = None) -> list[ModelCall]:
        """The calls in a model's message: a whole response, a part of one that holds the message, the message, or
        its list of parts, as decoded JSON. In the model's order. Never raises for what the message holds; without a
        call in it, the list is empty.
        """
        return finish(self.drafts(message), names)

    def write_results(
        self, calls: Sequence[ModelCall], results: Sequence[McpResult | None], carry: Carry = DEFAULT_CARRY
    ) -> Written:
        """The messages that answer `calls`; `results[i]` is of `calls[i]`. Where the result is None, an invalid call is
        answered with its reason, and a valid one is left to the caller. Raises ValueError where the lengths differ.
        """
        answers = Answers(calls, results)
        messages = tuple(self.write_answers(answers, carry))
        return Written(messages, tuple(answers.losses), tuple(answers.pending))
