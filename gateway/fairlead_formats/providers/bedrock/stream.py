"""Client streams of ConverseStream: the events of all rounds as one answer, without calls that the gateway runs.

Pure module. A round is one request to the model. Clients' parsers need one `messageStart`, `contentBlockIndex` from 0
without gaps over all rounds, one `messageStop`, and after it one `metadata` with the sum of usage. Only blocks of calls
and of results begin with a `contentBlockStart`; text and reasoning begin with their first delta.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import MAX_CALLS, member
from fairlead_formats.providers.bedrock.answer import hides_all_calls, is_malformed_call, unwrap_call
from fairlead_formats.providers.bedrock.assembly import ConverseBlock
from fairlead_formats.providers.bedrock.blocks import (
    FOREIGN_SIGNATURE,
    REASONING,
    TOOL_USE,
    Block,
    as_request,
    call_in,
    is_hidden,
    message_of,
)
from fairlead_formats.providers.bedrock.errors import error_object, exception_of, name_in_streams
from fairlead_formats.providers.bedrock.event_stream import write_message
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream, CallKey, FinishedCall, InnerCall, RunningCall
from fairlead_formats.wire.raw_json import add_usage, decode_object
from fairlead_mcp.surrogates import replace_lone_surrogates

MAX_ROUND: Final = 32 << 20
"""Maximum number of bytes of the provider's stream in one round."""
KEEP_ALIVE: Final = write_message("keepAlive", b"{}")
"""Event without content that keeps a connection open: clients skip events with names that they do not know."""
_INDEX: Final = "contentBlockIndex"
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NO_USAGE: Final[Mapping[str, int]] = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
_encode: Final = msgspec.json.Encoder().encode
_decode_event: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class BedrockStream:
    """One client's stream over all rounds, in events of ConverseStream."""

    def __init__(self, client_tools: Collection[str] | None) -> None:
        self._client_tools = client_tools
        self._round = 1
        self._block_count = 0
        """Number of blocks in the client's stream."""
        self._sent_start = False
        """Whether `messageStart` was sent to the client."""
        self.usage: dict[str, Any] = {}
        self._begin_round()

    def _begin_round(self) -> None:
        self._blocks: list[ConverseBlock] = []
        self._by_index: dict[int, ConverseBlock] = {}
        """Open and finished blocks of the round, by the provider's index."""
        self._unwrapped_blocks: list[Block] | None = None
        """All blocks of the round, after calls of `execute_tool` were replaced; None before."""
        self._stop_payload: dict[str, Any] = {}
        """Payload of the round's `messageStop`; empty before it."""
        self._metadata: dict[str, Any] = {}
        """Payload of the round's `metadata`; empty before it."""
        self._size = 0
        """Number of bytes that the provider sent in this round."""
        self.done = False

    def feed(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > MAX_ROUND:
            raise BadStream(f"the provider's answer is longer than {MAX_ROUND} bytes")
        data = replace_lone_surrogates(data)
        try:
            out = []
            for name, payload in _decode_event(data).items():
                if name == "error" or name.endswith("Exception"):
                    error = exception_of(name, _decode_object(payload))
                    raise BadStream("the provider ended its stream with an error", error)
                out.append(self._handle(name, payload))
        except _DECODE_ERRORS as error:
            raise BadStream(f"an event of the provider's stream is not an event of Converse: {error}") from error
        return b"".join(out)

    def _handle(self, name: str, payload: Raw) -> bytes:
        if name == "messageStop":
            self._stop_payload = _decode_object(payload)
            return self._pass(name, payload)
        if name == "metadata":
            self._metadata = _decode_object(payload)
            self.done = bool(self._stop_payload)
            return self._pass(name, payload)
        if name == "messageStart":
            was_sent, self._sent_start = self._sent_start, True
            return b"" if was_sent else write_message(name, payload)
        if name not in ("contentBlockStart", "contentBlockDelta", "contentBlockStop"):
            return self._pass(name, payload)
        event = _decode_object(payload)
        index = event.get(_INDEX)
        if not isinstance(index, int):
            raise BadStream("an event of the provider's stream has no contentBlockIndex")
        if self._client_tools is None:
            self._assemble(name, index, event)
            return write_message(name, payload)
        block = self._assemble(name, index, event)
        if block.index is None:
            return b""
        return self._client_event(name, block, event)

    def _pass(self, name: str, payload: Raw) -> bytes:
        """The unchanged event if the gateway runs no tools; otherwise empty, because `finish` writes one event for all
        rounds.
        """
        return write_message(name, payload) if self._client_tools is None else b""

    def _assemble(self, name: str, index: int, event: Mapping[str, Any]) -> ConverseBlock:
        """The block that an event belongs to, after the event was applied to it."""
        block = self._by_index.get(index)
        if name == "contentBlockStart":
            if block is not None:
                raise BadStream(f"the provider's stream starts block {index}, which was started before")
            block = self._add_block(index, ConverseBlock(event.get("start"), self._ids))
            if event.get("start"):  # an empty start does not tell the kind of the block: its first delta does
                self._assign_index(block)
            return block
        if name == "contentBlockDelta":
            delta = event.get("delta")
            if block is None:
                block = self._add_block(index, ConverseBlock(None, (), delta))
            block.add_delta(delta)
            self._assign_index(block)
        if block is None:
            raise BadStream(f"the provider's stream ends block {index}, which was not started")
        return block

    def _add_block(self, index: int, block: ConverseBlock) -> ConverseBlock:
        self._by_index[index] = block
        self._blocks.append(block)
        if len(self._ids) > MAX_CALLS:
            raise BadStream(f"the provider's answer has more than {MAX_CALLS} calls")
        return block

    def _assign_index(self, block: ConverseBlock) -> None:
        """Give a block its index in the client's stream, unless it is hidden. No effect the second time."""
        if block.is_numbered:
            return
        block.is_numbered = True
        is_hidden_block = is_hidden(block.block(), self._client_tools) or (self._round > 1 and block.is_redacted)
        if not is_hidden_block:
            block.index, self._block_count = self._block_count, self._block_count + 1

    @property
    def _ids(self) -> set[str]:
        """Ids of the round's calls."""
        return {block.call_id for block in self._blocks if block.call_id}

    def _client_event(self, name: str, block: ConverseBlock, event: Mapping[str, Any]) -> bytes:
        """The client's form of an event of a visible block. From round 2 on, signatures become `FOREIGN_SIGNATURE`."""
        client_event = {**event, _INDEX: block.index}
        if name == "contentBlockStart" and block.has_new_id:
            client_event["start"] = {TOOL_USE: block.start}
        out = b""
        if self._round > 1 and block.kind == REASONING:
            if name == "contentBlockDelta" and "signature" in (member(event.get("delta"), REASONING) or {}):
                return b""
            if name == "contentBlockStop":
                signature = {REASONING: {"signature": FOREIGN_SIGNATURE}}
                out = _write("contentBlockDelta", {"delta": signature, _INDEX: block.index})
        return out + _write(name, client_event)

    @property
    def stop_reason(self) -> str:
        """Stop reason of the round; empty until the provider sends it."""
        reason = self._stop_payload.get("stopReason")
        return reason if isinstance(reason, str) else ""

    @property
    def ended(self) -> bool:
        return bool(self.stop_reason)

    @property
    def _content(self) -> list[Block]:
        return [block.block() for block in self._blocks] if self._unwrapped_blocks is None else self._unwrapped_blocks

    @property
    def message(self) -> dict[str, Any]:
        return message_of(self._content, self.stop_reason)

    @property
    def request_messages(self) -> list[bytes]:
        return as_request("assistant", self._content)

    @property
    def malformed_call(self) -> bool:
        return is_malformed_call(self._content, self.stop_reason)

    @property
    def turn_key(self) -> CallKey | None:
        return None  # no turn needs to be stored: the API accepts finished turns without their reasoning

    def end_round(self) -> bytes:
        usage = self._metadata.get("usage")
        self.usage = add_usage(self.usage, usage if isinstance(usage, dict) else {})
        return b""

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        wrapped_blocks = self._content
        self._unwrapped_blocks = [unwrap_call(block, calls) for block in wrapped_blocks]
        out = b""
        for block, wrapped_block in zip(self._unwrapped_blocks, wrapped_blocks, strict=True):
            use = call_in(block)
            if block is wrapped_block or use is None:
                continue
            index, self._block_count = self._block_count, self._block_count + 1
            start = {name: value for name, value in use.items() if name != "input"}
            out += _write("contentBlockStart", {"start": {TOOL_USE: start}, _INDEX: index})
            delta = {TOOL_USE: {"input": _encode(use["input"]).decode()}}
            out += _write("contentBlockDelta", {"delta": delta, _INDEX: index})
            out += _write("contentBlockStop", {_INDEX: index})
        return out

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        return b""  # this API has no form for calls that the gateway runs

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        return b""

    def next_round(self) -> None:
        self._round += 1
        self._begin_round()

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        """`messageStop`, and `metadata` with `extra_members`; empty if every event passed unchanged."""
        if self._client_tools is None:
            return b""
        stop = dict(self._stop_payload)
        if self.stop_reason == "tool_use" and hides_all_calls(self._content, self._client_tools):
            stop["stopReason"] = "end_turn"
        usage = self.usage if self._round > 1 else self._metadata.get("usage", self.usage)
        metadata = {"metrics": {"latencyMs": 0}, **self._metadata, "usage": usage or _NO_USAGE, **extra_members}
        return _write("messageStop", stop) + _write("metadata", metadata)

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        members = error_object(error) if raw is None else decode_object(raw)
        return write_message(name_in_streams(members), _encode(members), "exception")

    def keep_alive(self) -> bytes:
        return KEEP_ALIVE


def _write(name: str, payload: Mapping[str, Any]) -> bytes:
    return write_message(name, _encode(payload))
