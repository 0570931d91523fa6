"""Items that the client of a session does not see: calls of the gateway's tools, and their outputs. Pure module."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from fairlead_speech.realtime_events import Event, member, members, text

MOST: Final = 4096
"""Hidden items that are remembered."""
_OF_ITEMS: Final = frozenset(
    {
        "conversation.item.added",
        "conversation.item.created",
        "conversation.item.done",
        "conversation.item.deleted",
        "conversation.item.retrieved",
        "response.output_item.added",
        "response.output_item.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    }
)


class HiddenItems:
    """Hidden items of one session, and what the client sees of events about items."""

    def __init__(self) -> None:
        self._before: OrderedDict[str, str | None] = OrderedDict()
        """By id: the item in front of it, where that is known."""

    def __contains__(self, item: str) -> bool:
        return item in self._before

    def hide(self, item: str) -> None:
        """Hide an item from now on."""
        if item and item not in self._before:
            self._before[item] = None
            if len(self._before) > MOST:
                self._before.popitem(last=False)

    def shown(self, kind: str, event: Event) -> Event | None:
        """An event about an item as the client sees it; None where it does not. The same object: it is unchanged."""
        item = text(member(event, "item"), "id") or text(event, "item_id")
        previous = event.get("previous_item_id")
        if kind in _OF_ITEMS and item in self._before:
            if isinstance(previous, str):
                self._before[item] = previous
            return None
        if isinstance(previous, str) and previous in self._before:
            return {**event, "previous_item_id": self._visible(previous)}
        return event

    def response(self, event: Event) -> Event:
        """A `response.done` without hidden items. The same object: it has none."""
        response = member(event, "response")
        output = members(response, "output")
        kept = [item for item in output if text(item, "id") not in self._before]
        return event if len(kept) == len(output) else {**event, "response": {**response, "output": kept}}

    def _visible(self, item: str) -> str | None:
        """The last item in front that the client has seen."""
        found: str | None = item
        for _ in range(MOST):
            if found is None or found not in self._before:
                return found
            found = self._before[found]
        return None
