"""Streams of Anthropic Messages.

Pure module. `content_block_start {index, content_block: {type: tool_use, id, name, input}}`, `content_block_delta
{index, delta: {type: input_json_delta, partial_json}}`, `content_block_stop {index}`.
"""

from __future__ import annotations

from fairlead_gateway.formats.messages.call import ToolCall
from fairlead_gateway.formats.messages.drafts import member
from fairlead_gateway.formats.messages.streams import Partial, Ready, event_of, room
from fairlead_gateway.formats.names import Names


class AnthropicAssembler:
    """Calls come out as their blocks stop."""

    def __init__(self, names: Names | None = None) -> None:
        self._ready = Ready(names)
        self._partials: dict[int, Partial] = {}

    def feed(self, event: object) -> list[ToolCall]:
        event = event_of(event)
        kind, index = member(event, "type"), member(event, "index")
        if kind == "message_stop":
            return self.close()
        if not isinstance(index, int):
            return []
        if kind == "content_block_start":
            return self._start(index, member(event, "content_block"))
        if kind == "content_block_delta":
            delta = member(event, "delta")
            if index in self._partials and member(delta, "type") == "input_json_delta":
                self._partials[index].append(member(delta, "partial_json"))
        elif kind == "content_block_stop" and index in self._partials:
            return [self._ready.call(_settled(self._partials.pop(index)))]
        return []

    def close(self) -> list[ToolCall]:
        left = [self._partials[index] for index in sorted(self._partials)]
        self._partials.clear()
        return [self._ready.call(_settled(partial), cut_off=True) for partial in left]

    def _start(self, index: int, block: object) -> list[ToolCall]:
        """A block of an index that never stopped ends with the next of the same index."""
        calls = [self._ready.call(_settled(self._partials.pop(index)), cut_off=True)] if index in self._partials else []
        if member(block, "type") == "tool_use" and room(self._partials):
            partial = self._partials[index] = Partial(member(block, "id"), member(block, "name"))
            partial.whole = member(block, "input")
        return calls


def _settled(partial: Partial) -> Partial:
    """The `input` of the start counts only where nothing followed: it is `{}` by rule, whole on some gateways."""
    if not partial.empty:
        partial.whole = None
    return partial
