"""Conversion of events between Bedrock ConverseStream and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import member, text_of
from fairlead_formats.neutral.answers import (
    CallBegin,
    CallDelta,
    CallEnd,
    ReportedUsage,
    RoundBorder,
    StopReason,
    StreamEvent,
    StreamStart,
    TextDelta,
)
from fairlead_formats.neutral.conversation import NeutralRequest
from fairlead_formats.providers.bedrock.blocks import FOREIGN_SIGNATURE, REASONING, TOOL_USE, call_in
from fairlead_formats.providers.bedrock.errors import name_in_streams
from fairlead_formats.providers.bedrock.event_stream import write_message
from fairlead_formats.providers.bedrock.stream import KEEP_ALIVE
from fairlead_formats.providers.bedrock.translation.answer import STOP_REASONS, read_stop, write_usage
from fairlead_formats.wire.protocol import TranslationLosses

_encode: Final = msgspec.json.Encoder().encode


class BedrockEventReader:
    """Converts Bedrock's events to neutral events. One block must end before the next begins."""

    def __init__(self, losses: TranslationLosses) -> None:
        self._losses = losses
        self._in_call = False
        self.stop: StopReason | None = None
        self.sequence: str | None = None

    def events(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        for name, payload in event.items():
            match name:
                case "messageStart":
                    yield StreamStart("", "")
                case "contentBlockStart":
                    yield from self._begin(member(payload, "start"))
                case "contentBlockDelta":
                    yield from self._read_delta(member(payload, "delta"))
                case "contentBlockStop":
                    if self._in_call:
                        yield CallEnd()
                    self._in_call = False
                case "messageStop":
                    self.stop = read_stop(member(payload, "stopReason"))

    def _begin(self, start: object) -> Iterator[StreamEvent]:
        call = call_in(start) if isinstance(start, dict) else None
        if call is not None:
            self._in_call = True
            yield CallBegin(text_of(call.get("toolUseId")), text_of(call.get("name")))
        elif isinstance(start, dict) and start:
            self._losses.add("answer_media" if "image" in start else "provider_tools")

    def _read_delta(self, delta: object) -> Iterator[StreamEvent]:
        if text := text_of(member(delta, "text")):
            yield TextDelta(text)
        elif text := text_of(member(member(delta, REASONING), "text")):
            yield TextDelta(text, "thinking")
        elif self._in_call and (text := text_of(member(member(delta, TOOL_USE), "input"))):
            yield CallDelta(text)
        elif member(delta, "citation") is not None:
            self._losses.add("citations")

    def next_round(self) -> Iterator[StreamEvent]:
        yield RoundBorder()


class BedrockEventWriter:
    """Converts neutral events to Bedrock's events. A neutral event of another kind ends a block and begins the next."""

    def __init__(self, request: NeutralRequest, created: int, losses: TranslationLosses) -> None:
        self._index = -1
        self._open_kind = ""
        """Kind of the open block, by the name of its member; empty if none is open."""

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case StreamStart():
                return self._event("messageStart", {"role": "assistant"})
            case TextDelta(kind="thinking"):
                return self._open_block(REASONING) + self._delta({REASONING: {"text": event.text}})
            case TextDelta():
                return self._open_block("text") + self._delta({"text": event.text})
            case CallBegin():
                start = {TOOL_USE: {"toolUseId": event.id, "name": event.name}}
                block_start = self._close() + self._open_block(TOOL_USE)
                return block_start + self._event(
                    "contentBlockStart", {"start": start, "contentBlockIndex": self._index}
                )
            case CallDelta():
                return self._delta({TOOL_USE: {"input": event.text}})
        return self._close()

    def _open_block(self, kind: str) -> bytes:
        """Begin a block of this kind unless a block of this kind is open."""
        if self._open_kind == kind:
            return b""
        out = self._close()
        self._index += 1
        self._open_kind = kind
        return out

    def _close(self) -> bytes:
        if not self._open_kind:
            return b""
        was_reasoning, self._open_kind = self._open_kind == REASONING, ""
        signature = self._delta({REASONING: {"signature": FOREIGN_SIGNATURE}}) if was_reasoning else b""
        return signature + self._event("contentBlockStop", {"contentBlockIndex": self._index})

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return self._event("contentBlockDelta", {"delta": delta, "contentBlockIndex": self._index})

    def finish(
        self, stop: StopReason, sequence: str | None, usage: ReportedUsage, extra_members: Mapping[str, Any]
    ) -> bytes:
        stop_event = self._event("messageStop", {"stopReason": STOP_REASONS[stop]})
        metadata = {"usage": write_usage(usage), "metrics": {"latencyMs": 0}, **extra_members}
        return self._close() + stop_event + self._event("metadata", metadata)

    def write_error(self, error: Mapping[str, Any]) -> bytes:
        return write_message(name_in_streams(error), _encode(error), "exception")

    def keep_alive(self) -> bytes:
        return KEEP_ALIVE

    def _event(self, name: str, payload: Mapping[str, Any]) -> bytes:
        return write_message(name, _encode(payload))
