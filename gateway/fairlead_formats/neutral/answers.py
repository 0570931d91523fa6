"""An answer in neutral form, whole and as the events of a stream. Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from fairlead_formats.neutral.conversation import CallPart, RefusalPart, TextPart, ThinkingPart

StopReason = Literal["end", "sequence", "calls", "length", "context", "filter", "refusal", "pause", "malformed"]
TRUNCATING: Final[frozenset[StopReason]] = frozenset({"length", "context", "filter", "refusal"})
"""Stop reasons after which the last call of an answer may lack its end."""


class ReportedUsage(msgspec.Struct, frozen=True):
    """Tokens of one answer, or the sum of several, as a provider reports them; None for a number it does not report."""

    input: int | None = None
    """All input tokens, including cached ones."""
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None
    """All output tokens, including reasoning."""
    reasoning: int | None = None

    @property
    def total(self) -> int | None:
        """Sum of input and output."""
        return None if self.input is None and self.output is None else (self.input or 0) + (self.output or 0)


class RoundBorder(msgspec.Struct, frozen=True):
    """Separates the parts of two rounds of the tool loop."""


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
    """The stop sequence that ended the answer, where the provider reports it."""

    @property
    def ends_in_call(self) -> bool:
        """Whether the answer ended with a call, by a reason that truncates."""
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
    """Whether the answer ended with the call, by a reason that truncates: arguments that are missing are not none."""


StreamEvent: TypeAlias = StreamStart | TextDelta | CallBegin | CallDelta | CallEnd | RoundBorder


class EventReader(Protocol):
    """Reads the events of one stream in a family's format."""

    stop: StopReason | None
    """None until the stream reports its end."""
    sequence: str | None

    def events(self, event: Mapping[str, Any]) -> Iterable[StreamEvent]:
        """The neutral events of one decoded event."""

    def next_round(self) -> Iterable[StreamEvent]:
        """The event between two rounds, for families whose stream does not show that border."""


class EventWriter(Protocol):
    """Writes the events of one stream in a client's format."""

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


def part_texts(parts: Iterable[AnswerPart], between: str = "\n\n") -> str:
    """All text, with `between` between the texts of two rounds."""
    rounds: list[list[str]] = [[]]
    for part in parts:
        if isinstance(part, RoundBorder):
            rounds.append([])
        elif isinstance(part, TextPart):
            rounds[-1].append(part.text)
    return between.join(filter(None, map("".join, rounds)))


def refusal_text(parts: Iterable[AnswerPart]) -> str:
    """The text of all refusals."""
    return "".join(part.text for part in parts if isinstance(part, RefusalPart))


def thinking_text(parts: Iterable[AnswerPart]) -> str:
    """The text of all reasoning parts."""
    return "\n\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and part.text)


def stop_with_calls(stop: StopReason, calls: bool) -> StopReason:
    """The stop reason, which is `calls` in place of `end` for an answer with calls."""
    return "calls" if calls and stop == "end" else stop


def number(value: object) -> int | None:
    """The value if it is a token count; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def sse(data: bytes, event: str = "") -> bytes:
    """An encoded server-sent event."""
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + data + b"\n\n"
