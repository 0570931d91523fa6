"""Events that the gateway sends to a provider beside the client's, to know them where they are refused. Pure module."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from fairlead_speech.realtime_events import own_id

MOST: Final = 256
"""Events that are remembered until they are refused."""
CLIENT_ASKS: Final = "client"
"""Mark of a client's request for a response, in place of an item, where the gateway gave it its id."""


class OwnEvents:
    """Events of one session, with the items that they make."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, str] = OrderedDict()

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._items

    def add(self, item: str) -> str:
        """Id of a new event, which makes that item."""
        event_id = own_id()
        self._items[event_id] = item
        if len(self._items) > MOST:
            self._items.popitem(last=False)
        return event_id

    def refused(self, event_id: str) -> str:
        """Item of an event that was refused; it is forgotten."""
        return self._items.pop(event_id)
