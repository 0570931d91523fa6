"""Answers and streams with `tool_calls`, rewritten to `function_call` for clients that sent `functions`.

Pure module. `functions` is OpenAI's form of tools before `tools`. A message holds only one `function_call`, so the
client receives the first of several calls. Source: OpenAI's API reference, deprecated members of messages and of
chunks' deltas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import FUNCTION_CALL, member
from fairlead_formats.providers.openai_chat.answer import TOOL_CALLS
from fairlead_formats.wire.call_ids import is_made_here
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import (
    CallKey,
    FinishedCall,
    InnerCall,
    LoopResult,
    RunningCall,
    WireAnswer,
    WireStream,
)
from fairlead_formats.wire.wrapped import WrappedAnswer, WrappedStream
from fairlead_mcp.sse import EventParser

_MAX_EVENT: Final = 32 << 20
_CALLS: Final = b'"tool_calls"'
_REASON: Final = "finish_reason"
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_choices: Final = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode: Final = msgspec.json.Decoder().decode
_NULL: Final = Raw(b"null")


class FunctionsAnswer(WrappedAnswer):
    """A provider's whole answer to one request of the tool loop, with `function_call` for the client."""

    def __init__(self, inner: WireAnswer) -> None:
        super().__init__(inner)
        self._inner_calls: Mapping[str, InnerCall] = {}

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        self._inner_calls = calls
        self.inner.unwrap(calls)

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        return self.inner.turn_key(_inner_answers(earlier_answers))

    def write(self, loop: LoopResult) -> bytes:
        body = self.inner.write(msgspec.structs.replace(loop, earlier_answers=_inner_answers(loop.earlier_answers)))
        if _CALLS not in body:
            return body
        members = _members(body)
        choices = [self._rewrite(choice) for choice in _decode_choices(members["choices"])]
        return _encode({**members, "choices": choices})

    def _rewrite(self, choice: dict[str, Raw]) -> dict[str, Any]:
        message: dict[str, Any] = dict(_members(choice.get("message", b"{}")))
        calls = [call for call in _decode(message.pop(TOOL_CALLS, _NULL)) or () if isinstance(call, dict)]
        if calls:
            first_call = next((call for call in calls if call.get("id") not in self._inner_calls), calls[0])
            message[FUNCTION_CALL] = _function_call(first_call)
        return {**choice, "message": message, _REASON: _reason(choice)}


def _inner_answers(answers: Sequence[WireAnswer]) -> list[WireAnswer]:
    return [answer.inner if isinstance(answer, FunctionsAnswer) else answer for answer in answers]


def _function_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call, or the delta of a call, as a `function_call`. Members that the gateway does not read, such as a
    signature, are kept.
    """
    function = call.get("function")
    others = {name: value for name, value in call.items() if name not in ("index", "id", "type", "function")}
    ident = call.get("id")
    gateway_id = {"id": ident} if isinstance(ident, str) and is_made_here(ident) else {}
    return {**(function if isinstance(function, dict) else {}), **gateway_id, **others}


def _reason(choice: Mapping[str, Raw]) -> Raw:
    reason = choice.get(_REASON, _NULL)
    return Raw(b'"function_call"') if bytes(reason) == _CALLS else reason


class FunctionsStream(WrappedStream):
    """One client's stream over all rounds of the tool loop, with `function_call` in place of `tool_calls`."""

    def __init__(self, inner: WireStream) -> None:
        super().__init__(inner)
        self._parser = EventParser(_MAX_EVENT)

    def feed(self, data: bytes) -> bytes:
        return self._rewrite(self.inner.feed(data))

    def end_round(self) -> bytes:
        return self._rewrite(self.inner.end_round())

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        return self._rewrite(self.inner.unwrap(calls))

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        return self.inner.show_running(calls)

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        return self.inner.show_results(calls)

    def next_round(self) -> None:
        self.inner.next_round()

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        return self._rewrite(self.inner.finish(extra_members))

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        return self.inner.write_error(error, raw)

    def keep_alive(self) -> bytes:
        return self.inner.keep_alive()

    def _rewrite(self, events: bytes) -> bytes:
        """The events with `function_call` in place of `tool_calls`. `events` contains only whole events."""
        if _CALLS not in events:
            return events
        return b"".join(self._rewrite_chunk(event.data) for event in self._parser.feed(events))

    def _rewrite_chunk(self, data: bytes) -> bytes:
        if _CALLS not in data:
            return b"data: " + data + b"\n\n"
        members = _members(data)
        choices = [self._rewrite_choice(choice) for choice in _decode_choices(members.get("choices", b"[]"))]
        if all(bytes(choice[_REASON]) == b"null" and not choice["delta"] for choice in choices):
            return b""  # a delta of a call that the client does not receive
        return b"data: " + _encode({**members, "choices": choices}) + b"\n\n"

    def _rewrite_choice(self, choice: dict[str, Raw]) -> dict[str, Any]:
        delta: dict[str, Any] = dict(_members(choice.get("delta", b"{}")))
        calls = _decode(delta.pop(TOOL_CALLS, _NULL)) or ()
        first_calls = [call for call in calls if isinstance(call, dict) and not member(call, "index")]
        if first_calls:
            delta[FUNCTION_CALL] = _function_call(first_calls[0])
        return {**choice, "delta": delta, _REASON: _reason(choice)}
