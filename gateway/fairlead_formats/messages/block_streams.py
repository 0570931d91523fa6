"""Streams of Anthropic Messages and of Bedrock's ConverseStream: both open, grow and close blocks by index.

Pure module. Anthropic: `content_block_start {index, content_block: {type: tool_use, id, name, input}}`,
`content_block_delta {index, delta: {type: input_json_delta, partial_json}}`, `content_block_stop {index}`. Bedrock:
`{contentBlockStart: {contentBlockIndex, start: {toolUse: {toolUseId, name}}}}`, `{contentBlockDelta: {…, delta:
{toolUse: {input}}}}`, `{contentBlockStop: {…}}`.
"""

from __future__ import annotations

from fairlead_formats.messages.call import ToolCall
from fairlead_formats.messages.drafts import member
from fairlead_formats.messages.streams import Partial, Ready, event_of, room
from fairlead_formats.names import Names


class _Blocks:
    """Calls come out as their blocks stop."""

    def __init__(self, names: Names | None = None) -> None:
        self._ready = Ready(names)
        self._partials: dict[int, Partial] = {}

    def close(self) -> list[ToolCall]:
        left = [self._partials[index] for index in sorted(self._partials)]
        self._partials.clear()
        return [self._ready.call(_settled(partial), cut_off=True) for partial in left]

    def _start(self, index: int, call: Partial | None) -> list[ToolCall]:
        """A block of an index that never stopped ends with the next of the same index."""
        ended = self._stop(index, cut_off=True)
        if call is not None and room(self._partials):
            self._partials[index] = call
        return ended

    def _grow(self, index: int, chunk: object) -> list[ToolCall]:
        if index in self._partials:
            self._partials[index].append(chunk)
        return []

    def _stop(self, index: int, *, cut_off: bool = False) -> list[ToolCall]:
        partial = self._partials.pop(index, None)
        return [] if partial is None else [self._ready.call(_settled(partial), cut_off=cut_off)]


class AnthropicAssembler(_Blocks):
    """Anthropic Messages."""

    def feed(self, event: object) -> list[ToolCall]:
        event = event_of(event)
        kind, index = member(event, "type"), member(event, "index")
        if kind == "message_stop":
            return self.close()
        if not isinstance(index, int):
            return []
        if kind == "content_block_start":
            return self._start(index, _tool_use(member(event, "content_block")))
        if kind == "content_block_delta":
            return self._grow(index, member(member(event, "delta"), "partial_json"))
        return self._stop(index) if kind == "content_block_stop" else []


class BedrockAssembler(_Blocks):
    """Bedrock ConverseStream."""

    def feed(self, event: object) -> list[ToolCall]:
        event = event_of(event)
        if member(event, "messageStop") is not None:
            return self.close()
        for kind in ("contentBlockStart", "contentBlockDelta", "contentBlockStop"):
            block = member(event, kind)
            index = member(block, "contentBlockIndex")
            if not isinstance(index, int):
                continue
            if kind == "contentBlockStart":
                use = member(member(block, "start"), "toolUse")
                opened = None if use is None else Partial(member(use, "toolUseId"), member(use, "name"))
                return self._start(index, opened)
            if kind == "contentBlockDelta":
                return self._grow(index, member(member(member(block, "delta"), "toolUse"), "input"))
            return self._stop(index)
        return []


def _tool_use(block: object) -> Partial | None:
    if member(block, "type") != "tool_use":
        return None
    partial = Partial(member(block, "id"), member(block, "name"))
    partial.whole = member(block, "input")
    return partial


def _settled(partial: Partial) -> Partial:
    """The `input` of the start counts only where nothing followed: it is `{}` by rule, whole on some gateways."""
    if not partial.empty:
        partial.whole = None
    return partial
