"""Conversion of stream events between Anthropic Messages and the neutral form (`neutral.answers`). Pure module."""

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
from fairlead_formats.neutral.conversation import NeutralRequest, valid_call
from fairlead_formats.providers.anthropic.blocks import FOREIGN_SIGNATURE
from fairlead_formats.providers.anthropic.translation.answer import STOP_REASONS, message_id, read_stop, write_usage
from fairlead_formats.wire.protocol import TranslationLosses

_EAGER_MEMBER: Final = "eager_input_streaming"
"""Member of a tool definition with which a client accepts arguments in pieces, as the model writes them."""
_encode: Final = msgspec.json.Encoder().encode


class AnthropicEventReader:
    """Converts Anthropic's events to neutral events. One block must end before the next begins."""

    def __init__(self, losses: TranslationLosses) -> None:
        self._losses = losses
        self._block_type = ""
        """Type of the open block; empty if none is open."""
        self.stop: StopReason | None = None
        self.sequence: str | None = None

    def events(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        match event.get("type"):
            case "message_start":
                message = event.get("message")
                yield StreamStart(text_of(member(message, "id")), text_of(member(message, "model")))
            case "content_block_start":
                yield from self._begin(event.get("content_block"))
            case "content_block_delta":
                yield from self._read_delta(event.get("delta"))
            case "content_block_stop":
                if self._block_type == "tool_use":
                    yield CallEnd()
                self._block_type = ""
            case "message_delta":
                delta = event.get("delta")
                reason, sequence = member(delta, "stop_reason"), member(delta, "stop_sequence")
                if reason is not None:  # a later event may have only usage
                    self.stop = read_stop(reason)
                self.sequence = sequence if isinstance(sequence, str) else self.sequence

    def _begin(self, block: object) -> Iterator[StreamEvent]:
        self._block_type = text_of(member(block, "type"))
        if self._block_type == "tool_use":
            yield CallBegin(text_of(member(block, "id")), text_of(member(block, "name")))
            call_input = member(block, "input")
            if isinstance(call_input, dict) and call_input:
                yield CallDelta(_encode(call_input).decode())
        elif self._block_type == "text" and (text := text_of(member(block, "text"))):
            yield TextDelta(text)
        elif self._block_type == "thinking" and (text := text_of(member(block, "thinking"))):
            yield TextDelta(text, "thinking")
        elif self._block_type.endswith(("_tool_use", "_tool_result")):
            self._losses.add("provider_tools")

    def _read_delta(self, delta: object) -> Iterator[StreamEvent]:
        kind = member(delta, "type")
        if kind == "text_delta" and (text := text_of(member(delta, "text"))):
            yield TextDelta(text)
        elif kind == "thinking_delta" and (text := text_of(member(delta, "thinking"))):
            yield TextDelta(text, "thinking")
        elif kind == "input_json_delta" and self._block_type == "tool_use":
            text = text_of(member(delta, "partial_json"))
            if text:
                yield CallDelta(text)
        elif kind == "citations_delta":
            self._losses.add("citations")

    def next_round(self) -> Iterator[StreamEvent]:
        yield RoundBorder()


class AnthropicEventWriter:
    """Converts neutral events to Anthropic's events. A neutral event of a new kind ends a block and begins another."""

    def __init__(self, request: NeutralRequest, created: int, losses: TranslationLosses) -> None:
        self._model = request.model
        self._index = -1
        self._losses = losses
        self._open_kind = ""
        """Kind of the open block; empty if none is open."""
        self._arguments: list[str] = []
        """Pieces of the open call's arguments. The API promises clients a JSON object, so the pieces are held until all
        of them show whether they form an object.
        """
        self._eager_tools = frozenset(
            text_of(member(tool, "name")) for tool in items(request.tools) if member(tool, _EAGER_MEMBER) is True
        )
        """Names of tools whose arguments the client accepts in pieces, valid or not."""
        self._is_eager_call = False
        """Whether the open call is of a tool in `_eager_tools`."""

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case StreamStart():
                message: dict[str, Any] = {
                    "id": message_id(event.id),
                    "type": "message",
                    "role": "assistant",
                    "model": event.model or self._model,
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": {"input_tokens": 0, "output_tokens": 0},
                }
                return self._event("message_start", {"message": message})
            case TextDelta(kind="thinking"):
                block = {"type": "thinking", "thinking": "", "signature": FOREIGN_SIGNATURE}
                return self._open_block("thinking", block) + self._delta("thinking_delta", "thinking", event.text)
            case TextDelta():
                start = self._open_block("text", {"type": "text", "text": ""})
                return start + self._delta("text_delta", "text", event.text)
            case CallBegin():
                call: dict[str, Any] = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
                self._arguments = []
                self._is_eager_call = event.name in self._eager_tools
                return self._close() + self._open_block("tool_use", call)
            case CallDelta() if self._is_eager_call:
                return self._delta("input_json_delta", "partial_json", event.text)
            case CallDelta():
                self._arguments.append(event.text)
                return b""
            case CallEnd():
                return self._write_arguments() + self._close()
        return self._close()

    def _write_arguments(self) -> bytes:
        """The arguments of the open call, wrapped in an object if they are not a JSON object."""
        text = "".join(self._arguments)
        call = ModelCall("", "", read_arguments(text))
        if not call.valid:
            text = _encode(valid_call(call, self._losses).arguments).decode()
        return self._delta("input_json_delta", "partial_json", text) if text else b""

    def _open_block(self, kind: str, block: Mapping[str, Any]) -> bytes:
        """Start a block of this kind unless a block of this kind is open."""
        if self._open_kind == kind:
            return b""
        out = self._close()
        self._index += 1
        self._open_kind = kind
        return out + self._event("content_block_start", {"index": self._index, "content_block": block})

    def _close(self) -> bytes:
        if not self._open_kind:
            return b""
        self._open_kind = ""
        return self._event("content_block_stop", {"index": self._index})

    def _delta(self, kind: str, name: str, text: str) -> bytes:
        return self._event("content_block_delta", {"index": self._index, "delta": {"type": kind, name: text}})

    def finish(
        self, stop: StopReason, sequence: str | None, usage: ReportedUsage, extra_members: Mapping[str, Any]
    ) -> bytes:
        delta = {"stop_reason": STOP_REASONS[stop], "stop_sequence": sequence}
        event_members = {"delta": delta, "usage": write_usage(usage), **extra_members}
        return self._close() + self._event("message_delta", event_members) + self._event("message_stop", {})

    def write_error(self, error: Mapping[str, Any]) -> bytes:
        return self._event("error", {"error": error})

    def keep_alive(self) -> bytes:
        """A ping, or an empty delta within a text block: some clients time out although they receive pings."""
        if self._open_kind == "text":
            return self._delta("text_delta", "text", "")
        return self._event("ping", {})

    def _event(self, kind: str, members: Mapping[str, Any]) -> bytes:
        return sse(_encode({"type": kind, **members}), kind)
