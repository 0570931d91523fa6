"""Ids of the calls of one session, each of one call: some servers begin to count anew in every answer. Pure module."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from fairlead_speech.cascaded.chat_model import GrowingCall
from fairlead_speech.tool_calls import MOST_IDS


class CallIds:
    """Ids that calls of the session had."""

    def __init__(self, new: Callable[[], str]) -> None:
        """`new` makes an id."""
        self._new = new
        self._seen: OrderedDict[str, None] = OrderedDict()

    def of(self, calls: Sequence[GrowingCall]) -> list[str]:
        """Ids for the calls of one answer: those that the model gave, but new ones where another call had them. The
        same call twice in one answer keeps its id, as it is run once.
        """
        made: dict[str, tuple[str, str]] = {}
        found = []
        for call in calls:
            ident, same = call.id, (call.name, call.arguments)
            if not ident or made.get(ident, same) != same or (ident in self._seen and ident not in made):
                ident = self._new()
            made[ident] = same
            found.append(ident)
        for ident in made:
            self._seen[ident] = None
            if len(self._seen) > MOST_IDS:
                self._seen.popitem(last=False)
        return found
