"""Client streams of Anthropic Messages: the events of all rounds as one answer, without calls that the gateway runs.

Pure module. A round is one request to the model. The code that assembles streams in clients (tested with Anthropic's
SDK) needs one `message_start`, block indices from 0 without gaps over all rounds, and each signature in one delta. It
also needs one `message_delta` with the sum of usage, one `message_stop`, and an `event` line before each event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import truncates
from fairlead_formats.providers.anthropic.assembly import StreamedBlock
from fairlead_formats.providers.anthropic.blocks import (
    SIGNED,
    TOOL_USE,
    as_message,
    calls_in,
    is_hidden,
    mark_signature,
    new_mark,
    thought_key,
)
from fairlead_formats.providers.anthropic.errors import error_object
from fairlead_formats.providers.anthropic.shown_calls import tool_result_blocks, tool_use_blocks
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream, CallKey, FinishedCall, InnerCall, RunningCall
from fairlead_formats.wire.raw_json import add_usage
from fairlead_mcp.surrogates import replace_lone_surrogates

MAX_ROUND: Final = 32 << 20
"""Maximum number of bytes of the provider's stream in one round."""
_PING: Final = b'event: ping\ndata: {"type": "ping"}\n\n'
_NULL: Final = Raw(b"null")
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_encode: Final = msgspec.json.Encoder().encode


class _MessagesEvent(msgspec.Struct):
    type: str = ""
    index: int | None = None
    content_block: Raw = _NULL
    delta: Raw = _NULL
    message: Raw = _NULL
    usage: dict[str, Any] | None = None
    error: Raw = _NULL


class _StartedMessage(msgspec.Struct):
    usage: dict[str, Any] | None = None


class _BlockTextDelta(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text_delta"):
    text: str


class _BlockThinkingDelta(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="thinking_delta"):
    thinking: str


class _TextEvent(msgspec.Struct, tag_field="type", tag="content_block_delta"):
    """An event with only a piece of text or thinking, the most frequent kind. The client gets its bytes unchanged."""

    index: int
    delta: _BlockTextDelta | _BlockThinkingDelta


_decode_text_event: Final = msgspec.json.Decoder(_TextEvent).decode
_decode_event: Final = msgspec.json.Decoder(_MessagesEvent).decode
_decode_message: Final = msgspec.json.Decoder(_StartedMessage).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class AnthropicStream:
    """One client's stream over all rounds, in events of Anthropic Messages."""

    def __init__(self, client_tools: Collection[str] | None) -> None:
        self._client_tools = client_tools
        self._round = 1
        self._block_count = 0
        """Number of blocks in the client's stream."""
        self._sent_start = False
        """Whether `message_start` was sent to the client."""
        self.usage: dict[str, Any] = {}
        self._marked_signature: str | None = None
        """The last signature that the client got with the gateway's prefix, from which the key of the stored turn is
        read; None before such a signature."""
        self.mark = new_mark()
        """Random part of the prefixes of this answer's signatures."""
        self._awaits_results = False
        """Whether this round's calls were sent to the client, but not their results."""
        self._begin_round()

    def _begin_round(self) -> None:
        self._blocks: list[StreamedBlock] = []
        self._ids: set[str] = set()
        """Ids of the calls in `_blocks`."""
        self._by_index: dict[int, tuple[StreamedBlock, int | None]] = {}
        """Maps the provider's index to the block, and to its index in the client's stream (None: hidden)."""
        self._end_members: dict[str, Raw] = {}
        """Members of the round's `message_delta` events; a later value replaces an earlier value."""
        self._delta_members: dict[str, Raw] = {}
        """Members of `delta` in the same events; null replaces no earlier value."""
        self._round_usage: dict[str, Any] = {}
        self._size = 0
        """Number of bytes that the provider sent in this round."""
        self._shows_call = self._hides_call = False
        """`_shows_call`: whether the client receives any call of this round. `_hides_call`: whether the gateway hides
        any.
        """
        self.stop_reason: str | None = None
        self.done = False

    def feed(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > MAX_ROUND:
            raise BadStream(f"the provider's answer is longer than {MAX_ROUND} bytes")
        if data.startswith(b"[DONE]"):
            return b""
        data = replace_lone_surrogates(data)
        try:
            if self._by_index and self._pass_text(data):
                return _sse_event("content_block_delta", data)
            event = _decode_event(data)
            if not event.type.isprintable():
                raise BadStream("an event of the provider's stream has no printable type")
            if event.type == "error":
                error = bytes(event.error)
                raise BadStream("the provider ended its stream with an error", None if error == b"null" else error)
            return self._handle(data, event)
        except _DECODE_ERRORS as error:
            raise BadStream(f"an event of the provider's stream is not an event of Messages: {error}") from error

    def _pass_text(self, data: bytes) -> bool:
        """Add a piece of text or thinking to its block. Returns False if the event cannot pass unchanged."""
        try:
            event = _decode_text_event(data)
        except _DECODE_ERRORS:
            return False  # another kind of event, which the general reader decodes
        block, index = self._by_index.get(event.index, (None, None))
        if block is None or index != event.index:
            return False
        delta = event.delta
        if isinstance(delta, _BlockTextDelta):
            block.append_text("text", delta.text)
        else:
            block.append_text("thinking", delta.thinking)
        return True

    def _handle(self, data: bytes, event: _MessagesEvent) -> bytes:
        if event.type == "message_stop":
            self.done = True
            return _sse_event(event.type, data) if self._client_tools is None and self.ended else b""
        if event.type == "message_delta":
            return self._record_end(data, event)
        if event.type == "message_start":
            return self._start(data, event)
        if self._client_tools is None:
            return _sse_event(event.type, data)
        if event.type == "content_block_start":
            return self._start_block(data, event)
        if event.index is None:
            return _sse_event(event.type, data)
        return self._continue_block(data, event)

    def _start(self, data: bytes, event: _MessagesEvent) -> bytes:
        self._round_usage |= _without_nulls(_decode_message(event.message).usage)
        if self._sent_start:
            return b""
        self._sent_start = True
        return _sse_event(event.type, data)

    def _record_end(self, data: bytes, event: _MessagesEvent) -> bytes:
        """Record a `message_delta`, whose values replace those of earlier events, unless they are null. The event is
        passed on if the client receives all calls.
        """
        self._end_members |= _members(data)
        for name, raw in _members(event.delta).items():
            if name not in self._delta_members or bytes(raw) != b"null":
                self._delta_members[name] = raw
        self.stop_reason = msgspec.json.decode(self._delta_members.get("stop_reason", b"null"), type=str | None)
        self._round_usage |= _without_nulls(event.usage)
        return b"" if self._client_tools is not None else _sse_event(event.type, data)

    def _start_block(self, data: bytes, event: _MessagesEvent) -> bytes:
        """Record the start of a block. A call has its complete name there, so it is passed on or hidden at once."""
        if not self._sent_start:
            raise BadStream("the provider's stream has a block before `message_start`")
        if event.index is None or event.index in self._by_index:
            raise BadStream(f"the provider's stream starts a block whose index is missing or in use: {event.index}")
        block = StreamedBlock(_members(event.content_block), self._ids)
        if block.members.get("type") == TOOL_USE:
            self._ids.add(str(block.members["id"]))
        self._blocks.append(block)
        if is_hidden(block.members, self._client_tools):
            self._hides_call = True
            self._by_index[event.index] = (block, None)
            return b""
        self._shows_call = self._shows_call or block.members.get("type") == TOOL_USE
        index, self._block_count = self._block_count, self._block_count + 1
        self._by_index[event.index] = (block, index)
        changed_members: dict[str, Any] = {} if index == event.index else {"index": index}
        signature = SIGNED.get(str(block.members.get("type")))
        if signature is not None and self._with_prefix(block.members.get(signature)) is not None:
            raws = _members(event.content_block)
            raws[signature] = Raw(_encode(self._marked_signature))
            changed_members["content_block"] = raws
        if block.has_new_id:
            changed_members["content_block"] = {**_members(event.content_block), "id": block.members["id"]}
        return _sse_event(event.type, _replace_members(data, changed_members))

    def _with_prefix(self, signature: object) -> str | None:
        """A signature with the gateway's prefix, as the client gets it; None if the client gets it unchanged."""
        if self._round == 1 or not isinstance(signature, str) or not signature:
            return None
        self._marked_signature = mark_signature(signature, self._round, self.mark)
        return self._marked_signature

    def _continue_block(self, data: bytes, event: _MessagesEvent) -> bytes:
        """Apply and pass on an event of an open block: a delta, the block's end, or an unknown event."""
        assert event.index is not None
        if event.index not in self._by_index:
            raise BadStream(f"the provider's stream continues block {event.index}, which was not started")
        block, index = self._by_index[event.index]
        changed_members: dict[str, Any] = {} if index == event.index else {"index": index}
        if event.type == "content_block_delta":
            delta = _decode_object(event.delta)
            block.add_delta(delta)
            if self._with_prefix(delta.get("signature")) is not None:
                changed_members["delta"] = {**delta, "signature": self._marked_signature}
        return b"" if index is None else _sse_event(event.type, _replace_members(data, changed_members))

    def end_round(self) -> bytes:
        self.usage = add_usage(self.usage, self._round_usage)
        return b""

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        out = []
        for block in self._blocks:
            inner_call = calls.get(str(block.members.get("id"))) if block.members.get("type") == TOOL_USE else None
            if inner_call is None:
                continue
            block.unwrap(inner_call)
            self._shows_call = True
            index, self._block_count = self._block_count, self._block_count + 1
            delta = {"type": "input_json_delta", "partial_json": inner_call.arguments.decode()}
            start_block = {**_members(block.block().raw), "input": {}}
            out += [
                {"type": "content_block_start", "index": index, "content_block": start_block},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        return b"".join(_sse_event(str(event["type"]), _encode(event)) for event in out)

    def next_round(self) -> None:
        self._round += 1
        self._begin_round()

    @property
    def message(self) -> dict[str, Any]:
        return calls_in([block.block().members for block in self._blocks], self.stop_reason)

    @property
    def request_messages(self) -> list[bytes]:
        return as_message("assistant", [block.block() for block in self._blocks])

    @property
    def turn_key(self) -> CallKey | None:
        if self._marked_signature is None or truncates(self.stop_reason):
            return None
        return thought_key(self._marked_signature)

    @property
    def malformed_call(self) -> bool:
        return False  # this API does not report unreadable calls

    @property
    def ended(self) -> bool:
        return self.done and self.stop_reason is not None

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        self._awaits_results = bool(calls)
        return self._write_blocks(tool_use_blocks(calls))

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        uses = b"" if self._awaits_results else self.show_running(calls)
        self._awaits_results = False
        return uses + self._write_blocks(tool_result_blocks(calls))

    def _write_blocks(self, blocks: Sequence[bytes]) -> bytes:
        """Start and stop events of blocks that the gateway adds to the stream."""
        out = []
        for raw in blocks:
            index, self._block_count = self._block_count, self._block_count + 1
            start = {"type": "content_block_start", "index": index, "content_block": Raw(raw)}
            stop = {"type": "content_block_stop", "index": index}
            out += [_sse_event(str(event["type"]), _encode(event)) for event in (start, stop)]
        return b"".join(out)

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        members = error_object(error) if raw is None else Raw(raw)
        return _sse_event("error", _encode({"type": "error", "error": members}))

    def keep_alive(self) -> bytes:
        return _PING

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        """The final `message_delta` and `message_stop`; empty if every event passed unchanged."""
        if self._client_tools is None:
            return b""
        delta: dict[str, Any] = dict(self._delta_members)
        if self.stop_reason == TOOL_USE and self._hides_call and not self._shows_call:
            delta["stop_reason"] = "end_turn"
        usage: Any = self.usage if self._round > 1 else self._end_members.get("usage", self.usage)
        end = {**self._end_members, "type": "message_delta", "delta": delta, "usage": usage, **extra_members}
        return _sse_event("message_delta", _encode(end)) + _sse_event("message_stop", b'{"type":"message_stop"}')


def _without_nulls(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Members of a usage object that are not null."""
    return {name: value for name, value in (usage or {}).items() if value is not None}


def _replace_members(data: bytes, members: Mapping[str, Any]) -> bytes:
    """The event with `members` replaced."""
    return _encode({**_members(data), **members}) if members else data


def _sse_event(kind: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data.replace(b"\n", b"\ndata: "))
