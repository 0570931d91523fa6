"""Answers and streams of a provider, in the format of a client of another family. Pure module."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.neutral.answers import (
    TRUNCATING,
    AnswerPart,
    CallBegin,
    CallDelta,
    CallEnd,
    RoundBorder,
    StopReason,
    StreamEvent,
    StreamStart,
    TranslatedAnswer,
)
from fairlead_formats.neutral.conversation import CallPart, rename_properties
from fairlead_formats.neutral.provider_errors import refusal_of, refusal_of_error
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.neutral.translation import TranslatedExchange
from fairlead_formats.pairs.tools_for import custom_call, custom_input
from fairlead_formats.schema.property_names import restore_text
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.family_format import GATEWAY_MEMBER
from fairlead_formats.wire.protocol import (
    BadStream,
    CallKey,
    FinishedCall,
    InnerCall,
    LoopResult,
    ProviderEventParser,
    RunningCall,
    TranslationLosses,
    WireAnswer,
    WireStream,
)
from fairlead_formats.wire.wrapped import WrappedAnswer, WrappedStream

MAX_EVENT: Final = 32 << 20
"""Maximum number of bytes of one event in the provider's format, before its translation."""
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class PairAnswer(WrappedAnswer):
    """A provider's whole answer to one round (request to the model), to be written in the client's format."""

    def __init__(self, inner: WireAnswer, exchange: TranslatedExchange) -> None:
        super().__init__(inner)
        self._exchange = exchange

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        return None  # no turn needs to be stored: clients of another family receive no signatures that depend on it

    def write(self, loop: LoopResult) -> bytes:
        """The client's answer, with the id of the first round. Calls that the gateway ran are not shown."""
        earlier_answers = [
            self._read(earlier_answer.inner, ())
            for earlier_answer in loop.earlier_answers
            if isinstance(earlier_answer, PairAnswer)
        ]
        last_answer = self._read(self.inner, loop.client_tools)
        parts: list[AnswerPart] = []
        for earlier_answer in earlier_answers:
            parts += [*earlier_answer.parts, RoundBorder()]
        parts += last_answer.parts
        first_answer = earlier_answers[0] if earlier_answers else last_answer
        answer = msgspec.structs.replace(
            last_answer,
            id=first_answer.id or secrets.token_hex(12),
            model=last_answer.model or self._exchange.request.model,
            created=first_answer.created or int(time.time()),
            parts=tuple(rename_call(part, self._exchange.tools) for part in parts),
        )
        report_stop(last_answer.stop, self._exchange.losses)
        exchange = self._exchange
        usage = exchange.provider.answers.read_usage(loop.usage)
        body = exchange.client.answers.write_answer(answer, usage, exchange.request, exchange.losses)
        return _encode({**body, **add_losses(loop.extra_members, exchange.losses)})

    def _read(self, inner: WireAnswer, client_tools: Collection[str] | None) -> TranslatedAnswer:
        body = _decode(inner.write(LoopResult(client_tools=client_tools)))
        return self._exchange.provider.answers.read_answer(body, self._exchange.losses)


class PairStream(WrappedStream):
    """One client's stream over all rounds (requests to the model), translated from the provider's format."""

    def __init__(
        self, inner: WireStream, exchange: TranslatedExchange, created: int, parser: ProviderEventParser
    ) -> None:
        """`created`: seconds since 1970. `parser`: parses what `inner` writes for clients of the provider's format."""
        super().__init__(inner)
        self._exchange = exchange
        self._tools = exchange.tools
        self._parser = parser
        self._reader = exchange.provider.reader(exchange.losses)
        self._writer = exchange.client.writer(exchange.request, created, exchange.losses)
        self._started = False
        self._buffered_arguments: list[str] | None = None
        """Pieces of the open call's arguments. They are held until they are complete if the call is of a custom tool or
        of a tool with renamed properties, because only whole arguments can be rewritten. None: pieces are passed on.
        """
        self._properties: Mapping[str, str] | None = None
        """Maps the names of the open call's arguments at the provider to the client's names."""
        self._border_events = b""
        """Encoded events to write between two rounds."""
        self._held_end: CallEnd | None = None
        """End of a call, held until the next event shows whether the answer ended with the call."""

    @property
    def turn_key(self) -> CallKey | None:
        return None

    def feed(self, data: bytes) -> bytes:
        return self._translate(self.inner.feed(data))

    def end_round(self) -> bytes:
        return self._translate(self.inner.end_round())

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        return self._translate(self.inner.unwrap(calls))

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        return b""  # every format shows calls in a different form

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        return b""

    def next_round(self) -> None:
        self.inner.next_round()
        self._border_events = self._release_end() + b"".join(map(self._writer.write, self._reader.next_round()))

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        out = self._translate(self.inner.finish({}))
        out += self._begin()
        usage = self._exchange.provider.answers.read_usage(self.inner.usage)
        stop = self._reader.stop or "end"
        out += self._release_end(truncated=stop in TRUNCATING)
        report_stop(stop, self._exchange.losses)
        return out + self._writer.finish(
            stop, self._reader.sequence, usage, add_losses(extra_members, self._exchange.losses)
        )

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        refusal = refusal_of_error(error) if raw is None else refusal_of(None, raw)
        return self._writer.write_error(self._exchange.client.errors.write_refusal(refusal)[1])

    def keep_alive(self) -> bytes:
        return self._writer.keep_alive()

    def _translate(self, provider_events: bytes) -> bytes:
        """The client's events, from events that the provider's format wrote for its own clients."""
        if not provider_events:
            return b""
        out, self._border_events = [self._border_events], b""
        for event in self._parser.feed(provider_events):
            if event.data.startswith(b"[DONE]"):
                continue
            try:
                value = _decode(event.data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise BadStream(f"an event of the provider's stream is not valid JSON: {error}") from error
            if isinstance(value, dict):
                out += [self._write(neutral_event) for neutral_event in self._reader.events(value)]
        return b"".join(out)

    def _release_end(self, *, truncated: bool = False) -> bytes:
        """Events of the held end of a call. `truncated`: whether the answer was cut off within this call."""
        end, self._held_end = self._held_end, None
        return b"" if end is None else self._write_end(CallEnd(truncated))

    def _write_end(self, event: CallEnd) -> bytes:
        """Events that end a call, preceded by its arguments if these were buffered."""
        if self._buffered_arguments is None:
            return self._writer.write(event)
        arguments, self._buffered_arguments = "".join(self._buffered_arguments), None
        if self._properties:
            text = restore_text(arguments, self._properties)
        else:
            text = custom_input(arguments) if arguments or not event.truncated else ""
        return (self._writer.write(CallDelta(text)) if text else b"") + self._writer.write(event)

    def _write(self, event: StreamEvent) -> bytes:
        return self._release_end() + self._write_now(event)

    def _write_now(self, event: StreamEvent) -> bytes:
        if isinstance(event, StreamStart):
            self._started = True
            event = StreamStart(event.id or secrets.token_hex(12), event.model)
            return self._writer.write(event)
        if isinstance(event, CallBegin):
            name = self._tools.names.get(event.name, event.name)
            event = CallBegin(event.id, name, name in self._tools.custom)
            self._properties = self._tools.properties.get(name)
            self._buffered_arguments = [] if event.custom or self._properties else None
        elif isinstance(event, CallDelta) and self._buffered_arguments is not None:
            self._buffered_arguments.append(event.text)
            return b""
        elif isinstance(event, CallEnd):
            self._held_end = event
            return b""
        return self._begin() + self._writer.write(event)

    def _begin(self) -> bytes:
        return b"" if self._started else self._write(StreamStart("", self._exchange.request.model))


def rename_call(part: AnswerPart, tools: TranslatedTools) -> AnswerPart:
    """The part; a call gets the client's name of the tool, and the form of a custom tool call if the tool is a custom
    tool.
    """
    if not isinstance(part, CallPart):
        return part
    name = tools.names.get(part.call.wire_name, part.call.wire_name)
    call = rename_properties(msgspec.structs.replace(part.call, name=name, sent_as=""), tools.properties.get(name))
    return CallPart(custom_call(call) if name in tools.custom else call)


def report_stop(stop: StopReason, losses: TranslationLosses) -> None:
    """Report a stop reason as lost if the client's format cannot distinguish it from a regular end."""
    if stop in ("pause", "malformed"):
        losses.add(f"stop.{stop}")


def add_losses(extra_members: Mapping[str, Any], losses: Iterable[str]) -> dict[str, Any]:
    """Members to add to an answer, with `losses` in the gateway's member `fairlead`."""
    gateway_member = extra_members.get(GATEWAY_MEMBER)
    return (
        {**extra_members, GATEWAY_MEMBER: {**gateway_member, "losses": [*losses]}}
        if isinstance(gateway_member, dict)
        else dict(extra_members)
    )
