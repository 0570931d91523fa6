"""Assembly of calls from streams of OpenAI Responses and Realtime.

Pure module. Reads the events `response.output_item.added` and `.done`, and
`response.function_call_arguments.delta` and `.done`.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead_formats.messages.call import CUSTOM, ModelCall, items, member, text_of
from fairlead_formats.messages.streams import CallBuilder, PartialCall, event_of, has_room
from fairlead_formats.names import Names
from fairlead_formats.providers.openai_responses.items import CALL, CUSTOM_CALL
from fairlead_formats.providers.openai_responses.message_items import ARGUMENTS_DONE

_CALLS: Final = (CALL, CUSTOM_CALL)


class ResponsesAssembler:
    """Assembles calls of Responses and Realtime. A call is complete with the event that ends its item."""

    def __init__(self, names: Names | None = None) -> None:
        self._builder = CallBuilder(names)
        self._partials: dict[object, PartialCall] = {}
        self._finished_keys: set[object] = set()
        """Keys of calls that were returned."""

    def feed(self, event: object) -> list[ModelCall]:
        event = event_of(event)
        kind = text_of(member(event, "type"))
        item = member(event, "item")
        if kind == "response.output_item.added":
            self._start(event, item)
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            self._partial_of(event).append(member(event, "delta"))
        elif kind in (ARGUMENTS_DONE, "response.custom_tool_call_input.done"):
            partial = self._partial_of(event)
            partial.whole = member(event, "arguments", "input")
            partial.id = partial.id or member(event, "call_id")
            partial.name = partial.name or member(event, "name")
        elif kind == "response.output_item.done" and member(item, "type") in _CALLS:
            return self._finish(_key(event), item)
        elif kind in ("response.completed", "response.incomplete", "response.failed", "response.done"):
            return self._finish_all(
                member(event, "response"), cut_off=kind not in ("response.completed", "response.done")
            )
        return []

    def close(self) -> list[ModelCall]:
        return self._finish_all(None, cut_off=True)

    def _start(self, event: object, item: object) -> None:
        if member(item, "type") in _CALLS and has_room(self._partials):
            partial = self._partial_of(event)
            partial.kind = _kind(item)
            partial.id = member(item, "call_id")
            partial.name = member(item, "name")

    def _partial_of(self, event: object) -> PartialCall:
        key = _key(event)
        if key not in self._partials and (key in self._finished_keys or not has_room(self._partials)):
            return PartialCall()
        return self._partials.setdefault(key, PartialCall())

    def _finish(self, key: object, item: object) -> list[ModelCall]:
        if key in self._finished_keys:
            return []
        partial = self._partials.pop(key, None) or PartialCall()
        partial.id = member(item, "call_id") or partial.id
        partial.name = member(item, "name") or partial.name
        partial.kind = _kind(item)
        arguments = member(item, "arguments", "input")
        partial.whole = arguments if arguments else partial.whole
        self._finished_keys.add(key)
        return [self._builder.call(partial, cut_off=member(item, "status") == "incomplete")]

    def _finish_all(self, response: object, *, cut_off: bool) -> list[ModelCall]:
        """Calls that were not returned yet: first the calls among the items of the final response, then unfinished
        calls.
        """
        calls: list[ModelCall] = []
        for index, item in enumerate(items(member(response, "output"))):
            key: Any = text_of(member(item, "id")) or index
            if member(item, "type") in _CALLS and not self._builder.has_seen(text_of(member(item, "call_id"))):
                calls.extend(self._finish(key, item))
        partials = list(self._partials.items())
        self._partials.clear()
        self._finished_keys.update(key for key, _ in partials)
        return [*calls, *(self._builder.call(p, cut_off=cut_off) for _, p in partials if p.id or p.name)]


def _kind(item: object) -> str:
    return CUSTOM if member(item, "type") == CUSTOM_CALL else ""


def _key(event: object) -> object:
    """Key of the item that an event is about: its id, or its index in the output if it has no id."""
    ident = text_of(member(event, "item_id")) or text_of(member(member(event, "item"), "id"))
    index = member(event, "output_index")
    return ident or (index if isinstance(index, int) else 0)
