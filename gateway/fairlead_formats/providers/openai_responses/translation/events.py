"""Conversion of stream events between OpenAI Responses and the neutral form (`neutral.answers`). Pure module."""

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
    sse,
)
from fairlead_formats.neutral.conversation import NeutralRequest
from fairlead_formats.providers.openai_responses.items import CALL, CUSTOM_CALL
from fairlead_formats.providers.openai_responses.translation.answer import (
    item_id,
    message_item,
    read_stop,
    reasoning_item,
    response_head,
    text_content,
    write_state,
    write_usage,
)
from fairlead_formats.wire.protocol import BadStream, TranslationLosses

_encode: Final = msgspec.json.Encoder().encode
_CALLS: Final = (CALL, CUSTOM_CALL)
_DELTAS: Final[Mapping[str, Any]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}


class ResponsesEventReader:
    """Converts events of Responses to neutral events. One item must end before the next begins."""

    def __init__(self, losses: TranslationLosses) -> None:
        self._losses = losses
        self._has_calls = self._has_refusal = self._has_message = self._has_arguments = False
        self.stop: StopReason | None = None
        self.sequence: str | None = None

    def events(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        kind = text_of(event.get("type"))
        if kind in _DELTAS:
            self._has_refusal = self._has_refusal or _DELTAS[kind] == "refusal"
            yield TextDelta(text_of(event.get("delta")), _DELTAS[kind])
        elif kind == "response.created":
            response = event.get("response")
            yield StreamStart(text_of(member(response, "id")), text_of(member(response, "model")))
        elif kind == "response.output_item.added":
            yield from self._begin(event.get("item"))
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            self._has_arguments = True
            yield CallDelta(text_of(event.get("delta")))
        elif kind == "response.output_item.done":
            yield from self._end(event.get("item"))
        elif kind == "response.output_text.annotation.added":
            self._losses.add("citations")
        elif kind in ("response.completed", "response.incomplete"):
            self.stop = read_stop(event.get("response"), has_calls=self._has_calls, has_refusal=self._has_refusal)
        elif kind == "response.failed":
            error = member(event.get("response"), "error")
            raise BadStream("the provider's model failed to answer", _encode(error) if error else None)

    def _begin(self, item: object) -> Iterator[StreamEvent]:
        kind = text_of(member(item, "type"))
        if kind in _CALLS:
            self._has_calls = True
            self._has_arguments = False
            yield CallBegin(text_of(member(item, "call_id")), text_of(member(item, "name")))
        elif kind in ("message", "reasoning"):
            if self._has_message and kind == "message":
                yield RoundBorder()
            self._has_message = self._has_message or kind == "message"
        else:
            self._losses.add("provider_tools")

    def _end(self, item: object) -> Iterator[StreamEvent]:
        if member(item, "type") not in _CALLS:
            return
        text = text_of(member(item, "arguments", "input"))
        if text and not self._has_arguments:
            yield CallDelta(text)
        yield CallEnd()

    def next_round(self) -> Iterator[StreamEvent]:
        yield from ()  # each message is an item of its own


class ResponsesEventWriter:
    """Converts neutral events to events of Responses. A neutral event of another kind ends an item and begins a new
    one.
    """

    def __init__(self, request: NeutralRequest, created: int, losses: TranslationLosses) -> None:
        self._request = request
        self._created = created
        self._head: dict[str, Any] = {}
        self._sequence = 0
        self._output: list[dict[str, Any]] = []
        self._open_kind = ""
        """Kind of the open item, or empty; `text` and `refusal` are a message item with an open part of this kind."""
        self._item_id = ""
        self._content: list[dict[str, Any]] = []
        """Finished content parts of the open message."""
        self._text: list[str] = []
        self._call = CallBegin("", "")

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case StreamStart():
                self._head = response_head(event.model or self._request.model, self._created, self._request)
                return self._state("response.created") + self._state("response.in_progress")
            case TextDelta(kind="thinking"):
                return self._write_reasoning(event.text)
            case TextDelta():
                return self._write_text(event)
            case CallBegin():
                return self._close() + self._begin_call(event)
            case CallDelta():
                self._text.append(event.text)
                return self._event(f"{self._input_event_prefix}.delta", delta=event.text)
            case CallEnd():
                return self._close(truncated=event.truncated)
        return self._close()

    def _write_reasoning(self, text: str) -> bytes:
        out = b""
        if self._open_kind != "thinking":
            out = self._close() + self._add("thinking", reasoning_item(self._new_id("rs"), ""))
            part = {"type": "summary_text", "text": ""}
            out += self._event("response.reasoning_summary_part.added", summary_index=0, part=part)
        self._text.append(text)
        return out + self._event("response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def _write_text(self, event: TextDelta) -> bytes:
        out = b""
        if self._open_kind != event.kind:
            if self._open_kind in ("text", "refusal"):
                out = self._close_part()
            else:
                out = self._close() + self._add(event.kind, message_item(self._new_id("msg"), (), "in_progress"))
            self._open_kind = event.kind
            out += self._part("response.content_part.added", self._content_part(""))
        self._text.append(event.text)
        logprobs: dict[str, Any] = {"logprobs": []} if event.kind == "text" else {}
        return out + self._part_event(f"{self._content_event()}.delta", delta=event.text, **logprobs)

    def _content_event(self) -> str:
        return "response.output_text" if self._open_kind == "text" else "response.refusal"

    def _content_part(self, text: str) -> dict[str, Any]:
        return text_content(text) if self._open_kind == "text" else {"type": "refusal", "refusal": text}

    def _begin_call(self, call: CallBegin) -> bytes:
        self._call = call
        return self._add("call", self._call_item("", "in_progress", self._new_id("ctc" if call.custom else "fc")))

    def _call_item(self, arguments: str, status: str, ident: str) -> dict[str, Any]:
        custom = self._call.custom
        return {
            "type": CUSTOM_CALL if custom else CALL,
            "id": ident,
            "call_id": self._call.id,
            "name": self._call.name,
            "input" if custom else "arguments": arguments,
            "status": status,
        }

    @property
    def _input_event_prefix(self) -> str:
        """Prefix of the event types for the open call's input."""
        return "response.custom_tool_call_input" if self._call.custom else "response.function_call_arguments"

    def _new_id(self, kind: str) -> str:
        self._item_id = item_id(kind, str(self._head.get("id", "")), len(self._output))
        return self._item_id

    def _add(self, kind: str, item: dict[str, Any]) -> bytes:
        self._open_kind = kind
        return self._write("response.output_item.added", {"output_index": len(self._output), "item": item})

    def _close_part(self) -> bytes:
        text, self._text = "".join(self._text), []
        done_members = {"text": text, "logprobs": []} if self._open_kind == "text" else {"refusal": text}
        part = self._content_part(text)
        out = self._part_event(f"{self._content_event()}.done", **done_members) + self._part(
            "response.content_part.done", part
        )
        self._content.append(part)
        return out

    def _close(self, *, truncated: bool = False) -> bytes:
        """End the open item, if any. `truncated`: whether the item is a call that may lack its end."""
        kind, out = self._open_kind, b""
        if not kind:
            return out
        if kind in ("text", "refusal"):
            out = self._close_part()
            item = message_item(self._item_id, self._content)
        elif kind == "thinking":
            text = "".join(self._text)
            part = {"type": "summary_text", "text": text}
            out = self._event("response.reasoning_summary_text.done", summary_index=0, text=text)
            out += self._event("response.reasoning_summary_part.done", summary_index=0, part=part)
            item = reasoning_item(self._item_id, text)
        else:
            arguments = "".join(self._text) or ("" if self._call.custom or truncated else "{}")
            item = self._call_item(arguments, "incomplete" if truncated else "completed", self._item_id)
            done_members = {"input": arguments} if self._call.custom else {"name": item["name"], "arguments": arguments}
            out = self._event(f"{self._input_event_prefix}.done", **done_members)
        out += self._write("response.output_item.done", {"output_index": len(self._output), "item": item})
        self._output.append(item)
        self._open_kind = ""
        self._text = []
        self._content = []
        return out

    def _part(self, kind: str, part: Mapping[str, Any]) -> bytes:
        return self._part_event(kind, part=part)

    def _part_event(self, kind: str, **members: Any) -> bytes:
        return self._event(kind, content_index=len(self._content), **members)

    def _event(self, kind: str, **members: Any) -> bytes:
        return self._write(kind, {"item_id": self._item_id, "output_index": len(self._output), **members})

    def _state(self, kind: str, **members: Any) -> bytes:
        state = {"status": "in_progress", "incomplete_details": None, "output": self._output, "usage": None}
        return self._write(kind, {"response": {**self._head, **state, **members}})

    def _write(self, kind: str, members: Mapping[str, Any]) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        return sse(_encode({"type": kind, "sequence_number": number, **members}), kind)

    def finish(
        self, stop: StopReason, sequence: str | None, usage: ReportedUsage, extra_members: Mapping[str, Any]
    ) -> bytes:
        out = self._close()
        contents = [part for item in self._output for part in item.get("content", ())]
        state = write_state(stop, has_refusal=any(part["type"] == "refusal" for part in contents))
        return out + self._state(f"response.{state['status']}", **state, usage=write_usage(usage), **extra_members)

    def write_error(self, error: Mapping[str, Any]) -> bytes:
        """The error event. The SDK raises only an error that is nested in a member `error` as an exception."""
        return self._write("error", {"error": error})

    def keep_alive(self) -> bytes:
        return b": still at work\n\n"
