"""Copies items between the conversations of provider and engine in a routed session, so that both have all messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from fairlead_speech.cascaded.answering import TurnAnswerer
from fairlead_speech.cascaded.conversation import spoken_text
from fairlead_speech.realtime.events import Event, member, new_id, text
from fairlead_speech.realtime.session import RealtimeSession

MAX_ENGINE_COPIES: Final = 256
"""Maximum number of items of the engine for which the id of the copy at the provider is stored."""
MAX_PROVIDER_COPIES: Final = 2048
"""Maximum number of items of the provider for which the id of the copy at the engine is stored."""
MAX_OUT_OF_BAND: Final = 64
"""Maximum number of stored ids of out-of-band responses in progress."""
MAX_ID: Final = 128
"""Maximum number of characters of a stored id."""
_TEXT_MEMBERS: Final = {"response.output_audio_transcript.done": "transcript", "response.output_text.done": "text"}


class RoutedItems:
    """Copies items between provider and engine in one session, and maps their ids."""

    def __init__(self, session: RealtimeSession, answerer: TurnAnswerer) -> None:
        self._session = session
        self._answerer = answerer
        self._engine_copies: OrderedDict[str, str] = OrderedDict()
        """By id of an item of the engine: id of its copy at the provider."""
        self._provider_copies: OrderedDict[str, str] = OrderedDict()
        """By id of an item of the provider: id of its copy at the engine."""
        self._out_of_band: OrderedDict[str, None] = OrderedDict()
        """Ids of out-of-band responses in progress."""

    def on_response_event(self, kind: str, event: Event) -> None:
        """Copy the text of a provider's response to the engine, unless the response is outside of the conversation."""
        response = member(event, "response")
        if kind == "response.done":
            self._out_of_band.pop(text(response, "id"), None)
        elif kind == "response.created" and response.get("conversation_id", "") is None:
            self._out_of_band[text(response, "id")[:MAX_ID]] = None
            if len(self._out_of_band) > MAX_OUT_OF_BAND:
                self._out_of_band.popitem(last=False)
        elif kind in _TEXT_MEMBERS and text(event, "response_id") not in self._out_of_band:
            self.copy_to_engine(text(event, "item_id"), "assistant", text(event, _TEXT_MEMBERS[kind]))

    def copy_to_engine(self, item_id: str, role: str, message_text: str) -> None:
        """Copy a message of the provider's conversation to the engine."""
        copy_id = self._answerer.add_message(role, message_text)
        if 0 < len(item_id) <= MAX_ID:
            self._provider_copies[item_id] = copy_id
        if len(self._provider_copies) > MAX_PROVIDER_COPIES:
            self._provider_copies.popitem(last=False)

    async def copy_to_provider(self, messages: Sequence[tuple[str, str]]) -> None:
        """Copy messages of the engine to the provider. `messages`: pairs of item id and text."""
        for item_id, message_text in messages:
            self._engine_copies[item_id] = await self._session.add_message(message_text)
        while len(self._engine_copies) > MAX_ENGINE_COPIES:
            self._engine_copies.popitem(last=False)

    async def truncate(self, item_id: str) -> None:
        """After an item of the engine was truncated, replace its copy at the provider."""
        original = self._answerer.engine.state.conversation.get(item_id)
        if item_id not in self._engine_copies or original is None:
            return
        await self._session.delete_item(self._engine_copies.pop(item_id))
        if remaining_text := spoken_text(original.wire):
            await self.copy_to_provider([(item_id, remaining_text)])

    async def delete(self, item_id: str) -> None:
        """After the client deleted an item, delete the item's copy on the other side, if there is a copy."""
        if item_id in self._engine_copies:
            await self._session.delete_item(self._engine_copies.pop(item_id))
        if item_id in self._provider_copies:
            self._answerer.engine.state.conversation.remove(self._provider_copies.pop(item_id))

    def for_provider(self, event: Event) -> Event:
        """Translate a client's `conversation.item.create` for the provider: add an id, and replace or remove a
        `previous_item_id` that names an item of the engine.
        """
        item = member(event, "item")
        if item.get("type") == "message" and not text(item, "id"):
            event = {**event, "item": {**item, "id": new_id()}}
        previous_id = text(event, "previous_item_id")
        if previous_id not in self._answerer.relay:
            return event
        if previous_id in self._engine_copies:
            return {**event, "previous_item_id": self._engine_copies[previous_id]}
        return {name: value for name, value in event.items() if name != "previous_item_id"}
