"""Assembly of calls from a stream of Chat Completions.

Pure module. The form is `choices[].delta.tool_calls[] {index, id?, function: {name?, arguments?}}`. Pieces of several
calls may alternate, and some servers omit the index or repeat one index for all calls, so that the index alone does not
tell which call a piece belongs to. `finish_reason` completes all calls.
"""

from __future__ import annotations

from typing import Final

from fairlead_formats.messages.call import CUSTOM, FUNCTION_CALL, ModelCall, items, member, text_of, truncates
from fairlead_formats.messages.streams import CallBuilder, PartialCall, begins_new_call, event_of, has_room, is_done
from fairlead_formats.names import Names

_LEGACY: Final = -1
"""Key of the single call in the legacy form `function_call`."""


class ChatAssembler:
    """Assembles the calls of one choice. Other choices are alternative answers, whose calls must not run."""

    def __init__(self, names: Names | None = None, choice: int = 0) -> None:
        self._builder = CallBuilder(names)
        self._choice = choice
        self._partials: dict[int, PartialCall] = {}
        self._keys_by_index: dict[int, int] = {}
        """Maps an index in the stream to the key in `_partials` of the call that the index refers to at the moment."""
        self._last_index = 0
        self._named_in_event: list[PartialCall] = []
        """Calls that were named in the current event: a second name in one event begins another call."""

    def feed(self, event: object) -> list[ModelCall]:
        if is_done(event):
            return self._flush(cut_off=False)
        finish_reason = None
        for choice in items(member(event_of(event), "choices")):
            if (member(choice, "index") or 0) != self._choice:
                continue
            self._add_delta(member(choice, "delta", "message"))
            finish_reason = member(choice, "finish_reason") or finish_reason
        return self._flush(cut_off=truncates(finish_reason)) if finish_reason else []

    def close(self) -> list[ModelCall]:
        return self._flush(cut_off=True)

    def _add_delta(self, delta: object) -> None:
        self._named_in_event = []
        for entry in items(member(delta, "tool_calls")):
            custom = member(entry, CUSTOM)
            function = member(entry, "function") if custom is None else custom
            partial = self._partial(member(entry, "index"), text_of(member(entry, "id")), function)
            if partial is not None and member(function, "name"):
                self._named_in_event.append(partial)
            if partial is not None and custom is not None:
                partial.kind = CUSTOM
                partial.name = partial.name or member(custom, "name")
                partial.append(member(custom, "input"))
            elif partial is not None:
                _append_piece(partial, function)
        legacy_call = member(delta, FUNCTION_CALL)
        if isinstance(legacy_call, dict):
            _append_piece(self._partials.setdefault(_LEGACY, PartialCall(kind=FUNCTION_CALL)), legacy_call)

    def _partial(self, index: object, ident: str, function: object) -> PartialCall | None:
        """The call that a delta belongs to: the call at its index, unless the delta begins another call.

        A delta begins another call if it has a name and a new id, a name after complete arguments, or the second name
        in the same event.
        """
        if not isinstance(index, int) or index < 0:
            same_id = next((key for key, partial in self._partials.items() if ident and partial.id == ident), None)
            index = (
                same_id
                if same_id is not None
                else self._last_index
                if not ident and self._partials
                else len(self._keys_by_index)
            )
        key = self._keys_by_index.get(index, index)
        partial = self._partials.get(key)
        begins_another = partial is not None and member(function, "name") and self._is_other(partial, ident, function)
        if partial is None or begins_another:
            if not has_room(self._partials):
                return None
            while key in self._partials:
                key += 1
            partial = self._partials[key] = PartialCall()
            self._keys_by_index[index] = key
        partial.id = partial.id or ident
        self._last_index = index
        return partial

    def _is_other(self, partial: PartialCall, ident: str, function: object) -> bool:
        """Whether a delta with a name begins another call than `partial`."""
        if ident and partial.id:
            return partial.id != ident
        arguments = member(function, "arguments", "input")
        if partial.whole is not None:
            return bool(arguments)
        return partial in self._named_in_event or begins_new_call(partial, arguments)

    def _flush(self, *, cut_off: bool) -> list[ModelCall]:
        partials = [self._partials[key] for key in sorted(self._partials)]
        self._partials.clear()
        self._keys_by_index.clear()
        return [self._builder.call(partial, cut_off=cut_off) for partial in partials]


def _append_piece(partial: PartialCall, function: object) -> None:
    """Add a delta to a call. Names are never split: a server that sends the name again sends the whole name."""
    partial.name = partial.name or member(function, "name")
    arguments = member(function, "arguments")
    if isinstance(arguments, dict):
        partial.whole = arguments
    partial.append(arguments)
