"""Streams of OpenAI Chat Completions, and of Responses and Realtime.

Pure module. Chat: `choices[].delta.tool_calls[] {index, id?, function: {name?, arguments?}}`; indices may interleave,
some servers leave them out or give every call the same one. The calls are complete with `finish_reason`. Responses:
`response.output_item.added`, `response.function_call_arguments.delta` and `.done`, `response.output_item.done`.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead_formats.messages.call import CUSTOM, FUNCTION_CALL, ModelCall, items, member, text_of
from fairlead_formats.messages.response_items import ARGUMENTS_DONE, CALL, CUSTOM_CALL
from fairlead_formats.messages.streams import Partial, Ready, begins_another, event_of, is_done, room
from fairlead_formats.names import Names

_OLD: Final = -1
"""Key of the one call of the old form."""


_CALLS: Final = (CALL, CUSTOM_CALL)


class ChatAssembler:
    """Reads one choice: acting on several alternatives of one message would run tools for answers nobody keeps."""

    def __init__(self, names: Names | None = None, choice: int = 0) -> None:
        self._ready = Ready(names)
        self._choice = choice
        self._partials: dict[int, Partial] = {}
        self._current: dict[int, int] = {}
        """The stream's index to the key of the call that it means now."""
        self._last = 0
        self._named: list[Partial] = []
        """Calls that entries of the event name."""

    def feed(self, event: object) -> list[ModelCall]:
        if is_done(event):
            return self._flush(cut_off=False)
        finished = None
        for choice in items(member(event_of(event), "choices")):
            if (member(choice, "index") or 0) != self._choice:
                continue
            self._take(member(choice, "delta", "message"))
            finished = member(choice, "finish_reason") or finished
        return self._flush(cut_off=finished == "length") if finished else []

    def close(self) -> list[ModelCall]:
        return self._flush(cut_off=True)

    def _take(self, delta: object) -> None:
        self._named = []
        for entry in items(member(delta, "tool_calls")):
            custom = member(entry, CUSTOM)
            function = member(entry, "function") if custom is None else custom
            partial = self._partial(member(entry, "index"), text_of(member(entry, "id")), function)
            if partial is not None and member(function, "name"):
                self._named.append(partial)
            if partial is not None and custom is not None:
                partial.kind = CUSTOM
                partial.name = partial.name or member(custom, "name")
                partial.append(member(custom, "input"))
            elif partial is not None:
                _grow(partial, function)
        old = member(delta, FUNCTION_CALL)
        if isinstance(old, dict):
            _grow(self._partials.setdefault(_OLD, Partial(kind=FUNCTION_CALL)), old)

    def _partial(self, index: object, ident: str, function: object) -> Partial | None:
        """The call that a delta belongs to: that of its index, unless it brings a name and another id, or a name behind
        arguments that are whole, or the second one of its event.
        """
        if not isinstance(index, int) or index < 0:
            known = next((key for key, partial in self._partials.items() if ident and partial.id == ident), None)
            index = known if known is not None else self._last if not ident and self._partials else len(self._current)
        key = self._current.get(index, index)
        partial = self._partials.get(key)
        another = partial is not None and member(function, "name") and self._is_other(partial, ident, function)
        if partial is None or another:
            if not room(self._partials):
                return None
            while key in self._partials:
                key += 1
            partial = self._partials[key] = Partial()
            self._current[index] = key
        partial.id = partial.id or ident
        self._last = index
        return partial

    def _is_other(self, partial: Partial, ident: str, function: object) -> bool:
        """Whether a delta with a name is of another call."""
        if ident and partial.id:
            return partial.id != ident
        arguments = member(function, "arguments", "input")
        if partial.whole is not None:
            return bool(arguments)
        return partial in self._named or begins_another(partial, arguments)

    def _flush(self, *, cut_off: bool) -> list[ModelCall]:
        partials = [self._partials[key] for key in sorted(self._partials)]
        self._partials.clear()
        self._current.clear()
        return [self._ready.call(partial, cut_off=cut_off) for partial in partials]


def _grow(partial: Partial, function: object) -> None:
    """The name comes once; servers that repeat it do so whole."""
    partial.name = partial.name or member(function, "name")
    arguments = member(function, "arguments")
    if isinstance(arguments, dict):
        partial.whole = arguments
    partial.append(arguments)


class ResponsesAssembler:
    """Responses and Realtime: calls come out as their items are done."""

    def __init__(self, names: Names | None = None) -> None:
        self._ready = Ready(names)
        self._partials: dict[object, Partial] = {}
        self._done: set[object] = set()

    def feed(self, event: object) -> list[ModelCall]:
        event = event_of(event)
        kind = text_of(member(event, "type"))
        item = member(event, "item")
        if kind == "response.output_item.added":
            self._open(event, item)
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            self._of(event).append(member(event, "delta"))
        elif kind in (ARGUMENTS_DONE, "response.custom_tool_call_input.done"):
            partial = self._of(event)
            partial.whole = member(event, "arguments", "input")
            partial.id = partial.id or member(event, "call_id")
            partial.name = partial.name or member(event, "name")
        elif kind == "response.output_item.done" and member(item, "type") in _CALLS:
            return self._finish(_key(event), item)
        elif kind in ("response.completed", "response.incomplete", "response.failed", "response.done"):
            return self._rest(member(event, "response"), cut_off=kind not in ("response.completed", "response.done"))
        return []

    def close(self) -> list[ModelCall]:
        return self._rest(None, cut_off=True)

    def _open(self, event: object, item: object) -> None:
        if member(item, "type") in _CALLS and room(self._partials):
            partial = self._of(event)
            partial.kind = _kind(item)
            partial.id = member(item, "call_id")
            partial.name = member(item, "name")

    def _of(self, event: object) -> Partial:
        key = _key(event)
        if key not in self._partials and (key in self._done or not room(self._partials)):
            return Partial()
        return self._partials.setdefault(key, Partial())

    def _finish(self, key: object, item: object) -> list[ModelCall]:
        if key in self._done:
            return []
        partial = self._partials.pop(key, None) or Partial()
        partial.id = member(item, "call_id") or partial.id
        partial.name = member(item, "name") or partial.name
        partial.kind = _kind(item)
        arguments = member(item, "arguments", "input")
        partial.whole = arguments if arguments else partial.whole
        self._done.add(key)
        return [self._ready.call(partial, cut_off=member(item, "status") == "incomplete")]

    def _rest(self, response: object, *, cut_off: bool) -> list[ModelCall]:
        """Calls that are not out yet: items of the final response, then calls that were begun."""
        calls: list[ModelCall] = []
        for place, item in enumerate(items(member(response, "output"))):
            key: Any = text_of(member(item, "id")) or place
            if member(item, "type") in _CALLS and not self._ready.seen(text_of(member(item, "call_id"))):
                calls.extend(self._finish(key, item))
        begun = list(self._partials.items())
        self._partials.clear()
        self._done.update(key for key, _ in begun)
        return [*calls, *(self._ready.call(p, cut_off=cut_off) for _, p in begun if p.id or p.name)]


def _kind(item: object) -> str:
    return CUSTOM if member(item, "type") == CUSTOM_CALL else ""


def _key(event: object) -> object:
    """An item's id: the place in the output where it has none."""
    ident = text_of(member(event, "item_id")) or text_of(member(member(event, "item"), "id"))
    place = member(event, "output_index")
    return ident or (place if isinstance(place, int) else 0)
