"""Conversion of stream events between Gemini's API and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import ModelCall, items, member, read_arguments, text_of
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
    sse,
)
from fairlead_formats.neutral.conversation import CallPart, NeutralRequest, TextPart, ThinkingPart, valid_call
from fairlead_formats.providers.gemini.carried_ids import sign_parts
from fairlead_formats.providers.gemini.translation.answer import (
    STOP_REASONS,
    first_candidate,
    is_blocked,
    read_parts,
    read_stop,
    write_usage,
)
from fairlead_formats.providers.gemini.translation.messages import FORMAT
from fairlead_formats.wire.protocol import TranslationLosses

_encode: Final = msgspec.json.Encoder().encode
_LINE_ENDS: Final = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}
"""Escapes of characters at which older SDKs of Google split lines, although SSE does not."""


class GeminiEventReader:
    """Converts responses of a stream, whose calls are complete, to neutral events."""

    def __init__(self, losses: TranslationLosses) -> None:
        self._losses = losses
        self._started = self._has_calls = False
        self.stop: StopReason | None = None
        self.sequence: str | None = None

    def events(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if not self._started:
            self._started = True
            yield StreamStart(text_of(event.get("responseId")), text_of(event.get("modelVersion")))
        candidate = first_candidate(event)
        for part in read_parts(items(member(member(candidate, "content"), "parts")), self._losses):
            if isinstance(part, CallPart):
                self._has_calls = True
                yield CallBegin(part.call.id, part.call.wire_name)
                yield CallDelta(_encode(part.call.arguments).decode())
                yield CallEnd()
            elif isinstance(part, TextPart):
                yield TextDelta(part.text)
            elif isinstance(part, ThinkingPart):
                yield TextDelta(part.text, "thinking")
        reason = member(candidate, "finishReason", "finish_reason")
        if reason:
            self.stop = read_stop(reason, has_calls=self._has_calls)
        elif candidate is None and is_blocked(event):
            self.stop = "filter"

    def next_round(self) -> Iterator[StreamEvent]:
        yield from ()  # the stream already separates the texts of rounds by an empty line


class GeminiEventWriter:
    """Converts neutral events to responses of a stream."""

    def __init__(self, request: NeutralRequest, created: int, losses: TranslationLosses) -> None:
        self._head = {"responseId": "", "modelVersion": request.model}
        self._losses = losses
        self._call = CallBegin("", "")
        self._arguments: list[str] = []
        self._wrote_text = self._needs_separator = self._array_started = False
        self._array = request.array

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case StreamStart():
                self._head |= {"responseId": event.id, "modelVersion": event.model or self._head["modelVersion"]}
            case TextDelta(kind="thinking"):
                return self._chunk([{"text": event.text, "thought": True}])
            case TextDelta():
                needs_separator, self._needs_separator, self._wrote_text = self._needs_separator, False, True
                return self._chunk([{"text": f"\n\n{event.text}" if needs_separator else event.text}])
            case CallBegin():
                self._call = event
                self._arguments = []
            case CallDelta():
                self._arguments.append(event.text)
            case CallEnd():
                call = ModelCall(self._call.id, self._call.name, read_arguments("".join(self._arguments)))
                return self._chunk(sign_parts(FORMAT.write_calls([valid_call(call, self._losses)])[0]["parts"]))
            case RoundBorder():
                self._needs_separator = self._wrote_text
        return b""

    def _chunk(self, parts: list[dict[str, Any]], **members: Any) -> bytes:
        return self._write_candidates([{"content": {"role": "model", "parts": parts}, "index": 0, **members}], {})

    def _write_candidates(self, candidates: list[dict[str, Any]], extra_members: Mapping[str, Any]) -> bytes:
        text = _encode({**self._head, "candidates": candidates, **extra_members}).decode()
        return self._event(text)

    def _event(self, text: str) -> bytes:
        if self._array:
            opening, self._array_started = "," if self._array_started else "[", True
            return f"{opening}{text}\n".encode()
        for raw, escaped in _LINE_ENDS.items():
            text = text.replace(raw, escaped)
        return sse(text.encode())

    def _close(self) -> bytes:
        return b"]" if self._array else b""

    def finish(
        self, stop: StopReason, sequence: str | None, usage: ReportedUsage, extra_members: Mapping[str, Any]
    ) -> bytes:
        usage_metadata = write_usage(usage)
        usage_members = {} if usage_metadata is None else {"usageMetadata": usage_metadata}
        content = {"role": "model", "parts": [{"text": ""}]}
        last_candidate = {"content": content, "finishReason": STOP_REASONS[stop], "index": 0}
        return self._write_candidates([last_candidate], {**usage_members, **extra_members}) + self._close()

    def write_error(self, error: Mapping[str, Any]) -> bytes:
        return self._event(_encode({"error": error}).decode()) + self._close()

    def keep_alive(self) -> bytes:
        return b"\n"
