"""Neutral form of a model's answer, independent of any provider's API: whole, or as stream events. Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from fairlead_formats.neutral.conversation import CallPart, RefusalPart, TextPart, ThinkingPart

StopReason = Literal["end", "sequence", "calls", "length", "context", "filter", "refusal", "pause", "malformed"]
TRUNCATING: Final[frozenset[StopReason]] = frozenset({"length", "context", "filter", "refusal"})
"""Stop reasons after which the last call of an answer may lack its end."""


class ReportedUsage(msgspec.Struct, frozen=True):
    """Tokens of one answer, or of several answers together. None for a number that the provider does not report."""

    input: int | None = None
    """All input tokens, including cached tokens."""
    cached: int | None = None
    """Input tokens that were read from the provider's cache."""
    cache_write: int | None = None
    """Input tokens that were written to the provider's cache."""
    output: int | None = None
    """All output tokens, including those of reasoning."""
    reasoning: int | None = None

    @property
    def total(self) -> int | None:
        """Sum of input and output."""
        return None if self.input is None and self.output is None else (self.input or 0) + (self.output or 0)


class RoundBorder(msgspec.Struct, frozen=True):
    """Separates the parts of two rounds of the tool loop; a round is one request to the model."""


AnswerPart: TypeAlias = TextPart | RefusalPart | ThinkingPart | CallPart | RoundBorder


class TranslatedAnswer(msgspec.Struct, frozen=True):
    """One whole answer."""

    id: str
    model: str
    created: int
    """Seconds since 1970."""
    parts: tuple[AnswerPart, ...]
    stop: StopReason
    sequence: str | None = None
    """The stop sequence that ended the answer; None if another reason did, or if the provider does not report it."""

    @property
    def ends_in_call(self) -> bool:
        """Whether the last part is a call that may lack its end, because of the stop reason."""
        return self.stop in TRUNCATING and bool(self.parts) and isinstance(self.parts[-1], CallPart)


class StreamStart(msgspec.Struct, frozen=True):
    """Start of an answer."""

    id: str
    model: str


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of text, of a refusal or of reasoning."""

    text: str
    kind: Literal["text", "refusal", "thinking"] = "text"


class CallBegin(msgspec.Struct, frozen=True):
    """Start of a call."""

    id: str
    name: str
    custom: bool = False
    """Whether the call is for a custom tool (OpenAI), whose input is text in place of arguments."""


class CallDelta(msgspec.Struct, frozen=True):
    """A piece of the arguments of the last started call."""

    text: str


class CallEnd(msgspec.Struct, frozen=True):
    """End of the last started call."""

    truncated: bool = False
    """Whether the answer was cut off within this call, so that arguments may be missing even if none were received."""


StreamEvent: TypeAlias = StreamStart | TextDelta | CallBegin | CallDelta | CallEnd | RoundBorder


class EventReader(Protocol):
    """Converts the events of one stream from a family's format to neutral events."""

    stop: StopReason | None
    """Reason for the end of the answer; None until the stream reports it."""
    sequence: str | None
    """The stop sequence that ended the answer; None if another reason did."""

    def events(self, event: Mapping[str, Any]) -> Iterable[StreamEvent]:
        """The neutral events for one decoded event of the provider."""

    def next_round(self) -> Iterable[StreamEvent]:
        """Events that mark the border between two rounds, for families whose streams have no mark for it."""


class EventWriter(Protocol):
    """Converts the neutral events of one stream to the client's format."""

    def write(self, event: StreamEvent) -> bytes:
        """The encoded event for the client."""

    def finish(
        self, stop: StopReason, sequence: str | None, usage: ReportedUsage, extra_members: Mapping[str, Any]
    ) -> bytes:
        """The events that end the stream."""

    def write_error(self, error: Mapping[str, Any]) -> bytes:
        """The final event, with an error object in the family's form."""

    def keep_alive(self) -> bytes:
        """Bytes that clients ignore, for times without events."""


def part_texts(parts: Iterable[AnswerPart], separator: str = "\n\n") -> str:
    """All text of an answer, with `separator` between the texts of two rounds."""
    rounds: list[list[str]] = [[]]
    for part in parts:
        if isinstance(part, RoundBorder):
            rounds.append([])
        elif isinstance(part, TextPart):
            rounds[-1].append(part.text)
    return separator.join(filter(None, map("".join, rounds)))


def refusal_text(parts: Iterable[AnswerPart]) -> str:
    """The text of all refusals."""
    return "".join(part.text for part in parts if isinstance(part, RefusalPart))


def thinking_text(parts: Iterable[AnswerPart]) -> str:
    """The text of all reasoning parts."""
    return "\n\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and part.text)


def stop_with_calls(stop: StopReason, has_calls: bool) -> StopReason:
    """The stop reason; `calls` in place of `end` if the answer has calls."""
    return "calls" if has_calls and stop == "end" else stop


def number(value: object) -> int | None:
    """The value if it is a token count; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def sse(data: bytes, event: str = "") -> bytes:
    """An encoded server-sent event."""
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + data + b"\n\n"
