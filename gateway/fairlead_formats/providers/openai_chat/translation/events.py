"""Conversion of stream chunks between Chat Completions and the neutral form (`neutral.answers`). Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.answers import (
    CallBegin,
    CallDelta,
    CallEnd,
    ReportedUsage,
    StopReason,
    StreamEvent,
    StreamStart,
    TextDelta,
    sse,
)
from fairlead_formats.neutral.conversation import NeutralRequest
from fairlead_formats.providers.openai_chat.translation.answer import (
    REASONING_MEMBERS,
    chat_id,
    read_stop,
    write_stop,
    write_usage,
)
from fairlead_formats.wire.protocol import TranslationLosses

_encode: Final = msgspec.json.Encoder().encode


class ChatEventReader:
    """Converts chunks to neutral events. One call must end before the next begins."""

    def __init__(self, losses: TranslationLosses) -> None:
        self._losses = losses
        self._started = self._has_refusal = False
        self._call_index: int | None = None
        self.stop: StopReason | None = None
        self.sequence: str | None = None

    def events(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        choice = next(iter(items(event.get("choices"))), None)
        if not self._started:
            self._started = True
            yield StreamStart(text_of(event.get("id")), text_of(event.get("model")))
        if choice is None:
            return
        delta = member(choice, "delta")
        reasoning = member(delta, *REASONING_MEMBERS)
        for kind, text in (("thinking", reasoning), ("text", member(delta, "content"))):
            if isinstance(text, str) and text:
                yield TextDelta(text, kind)  # type: ignore[arg-type] # two of its literals
        refusal = member(delta, "refusal")
        if isinstance(refusal, str) and refusal:
            self._has_refusal = True
            yield TextDelta(refusal, "refusal")
        if member(choice, "logprobs") is not None:
            self._losses.add("logprobs")
        for call in items(member(delta, "tool_calls")):
            yield from self._read_call(call)
        reason = member(choice, "finish_reason")
        if reason:
            if self._call_index is not None:
                yield CallEnd()
            self.stop = read_stop(reason, has_refusal=self._has_refusal)

    def _read_call(self, call: object) -> Iterator[StreamEvent]:
        index, function = member(call, "index"), member(call, "function", "custom")
        if index != self._call_index:
            if self._call_index is not None:
                yield CallEnd()
            self._call_index = index
            yield CallBegin(text_of(member(call, "id")), text_of(member(function, "name")))
        text = member(function, "arguments", "input")
        if isinstance(text, str) and text:
            yield CallDelta(text)

    def next_round(self) -> Iterator[StreamEvent]:
        yield from ()  # the stream already separates the texts of rounds by an empty line


class ChatEventWriter:
    """Converts neutral events to chunks."""

    def __init__(self, request: NeutralRequest, created: int, losses: TranslationLosses) -> None:
        self._include_usage = request.include_usage
        self._head: dict[str, Any] = {
            "id": "",
            "object": "chat.completion.chunk",
            "created": created,
            "model": request.model,
        }
        self._call_count = 0
        self._kind = "function"
        """Member of the open call that holds its name and input: `function`, or `custom` for a custom tool."""
        self._input = "arguments"
        """Member within `_kind` that holds the input: `arguments`, or `input` for a custom tool."""
        self._wrote_text = self._needs_separator = self._has_refusal = self._lacks_arguments = False

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case StreamStart():
                self._head |= {"id": chat_id(event.id), "model": event.model or self._head["model"]}
                return self._chunk({"role": "assistant", "content": ""})
            case TextDelta():
                return self._chunk({self._member(event.kind): self._text(event)})
            case CallBegin():
                self._call_count += 1
                self._lacks_arguments = not event.custom
                self._kind, self._input = ("custom", "input") if event.custom else ("function", "arguments")
                call_members = {"name": event.name, self._input: ""}
                return self._write_call({"id": event.id, "type": self._kind, self._kind: call_members})
            case CallDelta():
                self._lacks_arguments = False
                return self._write_call({self._kind: {self._input: event.text}})
            case CallEnd():
                needs_object = self._lacks_arguments and not event.truncated
                return self._write_call({self._kind: {self._input: "{}"}}) if needs_object else b""
        self._needs_separator = self._wrote_text
        return b""

    def _member(self, kind: str) -> str:
        self._has_refusal = self._has_refusal or kind == "refusal"
        return {"text": "content", "refusal": "refusal"}.get(kind, REASONING_MEMBERS[0])

    def _text(self, event: TextDelta) -> str:
        if event.kind != "text":
            return event.text
        needs_separator, self._needs_separator, self._wrote_text = self._needs_separator, False, True
        return f"\n\n{event.text}" if needs_separator else event.text

    def _write_call(self, call: Mapping[str, Any]) -> bytes:
        return self._chunk({"tool_calls": [{"index": self._call_count - 1, **call}]})

    def _chunk(
        self, delta: Mapping[str, Any], reason: str | None = None, extra_members: Mapping[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return sse(_encode({**self._head, "choices": [choice], **(extra_members or {})}))

    def finish(
        self, stop: StopReason, sequence: str | None, usage: ReportedUsage, extra_members: Mapping[str, Any]
    ) -> bytes:
        out = self._chunk({}, write_stop(stop, has_refusal=self._has_refusal), extra_members)
        usage_members = write_usage(usage) if self._include_usage else None
        if usage_members is not None:
            out += sse(_encode({**self._head, "choices": [], "usage": usage_members}))
        return out + sse(b"[DONE]")

    def write_error(self, error: Mapping[str, Any]) -> bytes:
        return sse(_encode({"error": error}))

    def keep_alive(self) -> bytes:
        return b": still at work\n\n"
