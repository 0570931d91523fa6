"""Items of a conversation that a provider and an engine share: each knows those of the other as copies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from fairlead_speech.cascaded.answering import TurnAnswerer
from fairlead_speech.cascaded.conversation import spoken_text
from fairlead_speech.realtime.events import Event, member, own_id, text
from fairlead_speech.realtime.session import RealtimeSession

MOST_TOLD: Final = 256
"""Items of the engine whose copies are remembered."""
MOST_KNOWN: Final = 2048
"""Items of the provider whose copies are remembered."""
MOST_BESIDE: Final = 64
"""Responses out of the conversation that are remembered until they end."""
MOST_ID: Final = 128
"""Characters of an id that is remembered."""
_SAID: Final = {"response.output_audio_transcript.done": "transcript", "response.output_text.done": "text"}


class RoutedItems:
    """Copies of items, of one session."""

    def __init__(self, session: RealtimeSession, answerer: TurnAnswerer) -> None:
        self._session = session
        self._answerer = answerer
        self._told: OrderedDict[str, str] = OrderedDict()
        """Items of the engine, with those by which the provider knows what was said."""
        self._known: OrderedDict[str, str] = OrderedDict()
        """Items of the provider, with those by which the engine knows what was said."""
        self._beside: OrderedDict[str, None] = OrderedDict()
        """Responses in progress that are out of the conversation."""

    def responding(self, kind: str, event: Event) -> None:
        """Have the engine know what a response of the provider says in the conversation."""
        response = member(event, "response")
        if kind == "response.done":
            self._beside.pop(text(response, "id"), None)
        elif kind == "response.created" and response.get("conversation_id", "") is None:
            self._beside[text(response, "id")[:MOST_ID]] = None
            if len(self._beside) > MOST_BESIDE:
                self._beside.popitem(last=False)
        elif kind in _SAID and text(event, "response_id") not in self._beside:
            self.known(text(event, "item_id"), "assistant", text(event, _SAID[kind]))

    def known(self, item: str, role: str, words: str) -> None:
        """Have the engine know an item of the provider's."""
        copy = self._answerer.remember(role, words)
        if 0 < len(item) <= MOST_ID:
            self._known[item] = copy
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    async def tell(self, said: Sequence[tuple[str, str]]) -> None:
        """Have the provider know items of the engine, by their ids and texts."""
        for item, words in said:
            self._told[item] = await self._session.remember(words)
        while len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)

    async def cut(self, item: str) -> None:
        """Have the provider know no more of an item of the engine than was heard."""
        found = self._answerer.engine.state.conversation.get(item)
        if item not in self._told or found is None:
            return
        await self._session.forget(self._told.pop(item))
        if words := spoken_text(found.shown):
            await self.tell([(item, words)])

    async def deleted(self, item: str) -> None:
        """Delete the copy of an item that the client deletes; no-op where there is none."""
        if item in self._told:
            await self._session.forget(self._told.pop(item))
        if item in self._known:
            self._answerer.engine.state.conversation.remove(self._known.pop(item))

    def placed(self, event: Event) -> Event:
        """A client's new item as the provider gets it: with an id, and behind an item that the provider has."""
        item = member(event, "item")
        if item.get("type") == "message" and not text(item, "id"):
            event = {**event, "item": {**item, "id": own_id()}}
        before = text(event, "previous_item_id")
        if before not in self._answerer.relay:
            return event
        if before in self._told:
            return {**event, "previous_item_id": self._told[before]}
        return {name: value for name, value in event.items() if name != "previous_item_id"}
