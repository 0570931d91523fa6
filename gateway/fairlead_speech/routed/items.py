"""Copies of items: provider and engine each have what the other one and its user said as messages of their own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from fairlead_speech.cascaded.answering import TurnAnswerer
from fairlead_speech.cascaded.conversation import spoken_text
from fairlead_speech.realtime.events import Event, member, new_id, text
from fairlead_speech.realtime.session import RealtimeSession

MAX_ENGINE_COPIES: Final = 256
"""Engine's items whose copies at the provider are remembered."""
MAX_PROVIDER_COPIES: Final = 2048
"""Provider's items whose copies in the engine are remembered."""
MAX_OUT_OF_BAND: Final = 64
"""Out-of-band responses that are remembered until they end."""
MAX_ID: Final = 128
"""Characters of an id that is remembered."""
_TEXT_MEMBERS: Final = {"response.output_audio_transcript.done": "transcript", "response.output_text.done": "text"}


class RoutedItems:
    """Copies of items in one session."""

    def __init__(self, session: RealtimeSession, answerer: TurnAnswerer) -> None:
        self._session = session
        self._answerer = answerer
        self._engine_copies: OrderedDict[str, str] = OrderedDict()
        """Ids of the provider's copies, by item of the engine."""
        self._provider_copies: OrderedDict[str, str] = OrderedDict()
        """Ids of the engine's copies, by item of the provider."""
        self._out_of_band: OrderedDict[str, None] = OrderedDict()
        """Ids of out-of-band responses in progress."""

    def on_response_event(self, kind: str, event: Event) -> None:
        """Copy what a response of the provider says in the conversation to the engine."""
        response = member(event, "response")
        if kind == "response.done":
            self._out_of_band.pop(text(response, "id"), None)
        elif kind == "response.created" and response.get("conversation_id", "") is None:
            self._out_of_band[text(response, "id")[:MAX_ID]] = None
            if len(self._out_of_band) > MAX_OUT_OF_BAND:
                self._out_of_band.popitem(last=False)
        elif kind in _TEXT_MEMBERS and text(event, "response_id") not in self._out_of_band:
            self.copy_to_engine(text(event, "item_id"), "assistant", text(event, _TEXT_MEMBERS[kind]))

    def copy_to_engine(self, item: str, role: str, words: str) -> None:
        """Copy an item of the provider to the engine."""
        copy = self._answerer.add_message(role, words)
        if 0 < len(item) <= MAX_ID:
            self._provider_copies[item] = copy
        if len(self._provider_copies) > MAX_PROVIDER_COPIES:
            self._provider_copies.popitem(last=False)

    async def copy_to_provider(self, messages: Sequence[tuple[str, str]]) -> None:
        """Copy items of the engine, given as ids and texts, to the provider."""
        for item, words in messages:
            self._engine_copies[item] = await self._session.add_message(words)
        while len(self._engine_copies) > MAX_ENGINE_COPIES:
            self._engine_copies.popitem(last=False)

    async def truncate(self, item: str) -> None:
        """Replace the provider's copy of an item that was truncated in the engine."""
        original = self._answerer.engine.state.conversation.get(item)
        if item not in self._engine_copies or original is None:
            return
        await self._session.delete_item(self._engine_copies.pop(item))
        if words := spoken_text(original.wire):
            await self.copy_to_provider([(item, words)])

    async def delete(self, item: str) -> None:
        """Delete the copy of an item that the client deletes; no-op where there is none."""
        if item in self._engine_copies:
            await self._session.delete_item(self._engine_copies.pop(item))
        if item in self._provider_copies:
            self._answerer.engine.state.conversation.remove(self._provider_copies.pop(item))

    def for_provider(self, event: Event) -> Event:
        """A client's `conversation.item.create` in the form for the provider: with an id, and after an item that the
        provider has.
        """
        item = member(event, "item")
        if item.get("type") == "message" and not text(item, "id"):
            event = {**event, "item": {**item, "id": new_id()}}
        before = text(event, "previous_item_id")
        if before not in self._answerer.relay:
            return event
        if before in self._engine_copies:
            return {**event, "previous_item_id": self._engine_copies[before]}
        return {name: value for name, value in event.items() if name != "previous_item_id"}
