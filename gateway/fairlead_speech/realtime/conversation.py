"""State of the default conversation of a Realtime session: its responses and their calls, hidden items, own events.

Pure. A conversation has one response at a time, and the client's own request for the next one comes first. An *output*
is the result of a call that the gateway ran. A response that began after the provider took an output has heard of it;
for one that did not, another response is asked for when that one is done.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from fairlead_speech.realtime.events import Event, member, members, own_id, text


class ResponseTurns:
    """State of the default conversation of one session: free, asked, or answering; and who speaks."""

    def __init__(self) -> None:
        self.active = False
        """Whether a response is in progress."""
        self.asked = False
        """Whether one was asked for, by the client or by the gateway, and has not begun."""
        self.speaking = False
        """Whether the user speaks, or has just spoken and is about to be answered."""
        self.elsewhere = False
        """Whether somebody else answers the turn, or is about to decide who does."""
        self.answers_speech = True
        """Whether the provider answers by itself when the user has spoken (`create_response`)."""
        self._wanted = False
        self._untaken: set[str] = set()

    @property
    def free(self) -> bool:
        """Whether nothing is being answered, and no answer was asked for."""
        return not self.active and not self.asked and not self.elsewhere

    @property
    def owes(self) -> bool:
        """Whether the model is answering, or is to answer."""
        return not self.free or self._wanted

    def configured(self, session: Event) -> None:
        """Take from the provider's session whether it answers speech by itself."""
        audio = member(member(session, "audio"), "input")
        if "turn_detection" in audio:
            detection = audio["turn_detection"]
            creates = member(audio, "turn_detection").get("create_response", True)
            self.answers_speech = detection is not None and creates is not False

    def client_asks(self) -> None:
        """The client asks for a response: the gateway does not, for what is there by now."""
        self.asked = True
        self._wanted = False

    def began(self) -> None:
        """A response began, asked for or by itself."""
        self.active = True
        self.asked = False
        if self.answers_speech:
            self.speaking = False
        if not self._untaken:
            self._wanted = False

    def done(self) -> None:
        """The response is over."""
        self.active = False

    def want(self) -> None:
        """All outputs of a response were sent: the model is to go on."""
        self._wanted = not self.speaking

    def sent(self, item: str) -> None:
        """An output was sent, as an item."""
        self._untaken.add(item)

    def taken(self, item: str) -> None:
        """The provider has an item, or refused it."""
        self._untaken.discard(item)

    def ask(self) -> bool:
        """Whether the gateway is to ask for a response now; it counts as asked then."""
        if not self._wanted or not self.free or self.speaking:
            return False
        self.asked = True
        self._wanted = False
        return True

    def refused(self, *, active: bool) -> None:
        """The gateway's request for a response was refused; `active`: because there is one already."""
        self.asked = False
        if active:
            self.active = self._wanted = True

    def client_refused(self) -> None:
        """The client's request for a response was refused."""
        self.asked = False

    def speech_began(self) -> None:
        """The user speaks. What was to be said is said with the answer to that."""
        self.speaking = True
        self._wanted = False

    def speech_dropped(self) -> None:
        """The client threw away what the user said."""
        self.speaking = False

    def speech_taken(self) -> None:
        """Take the end of a turn of speech, which is in the conversation now."""
        if not self.answers_speech:
            self.speaking = False


MOST_RESPONSES: Final = 64
"""Responses with calls that are remembered."""


class _Round(msgspec.Struct):
    waiting: set[str] = msgspec.field(default_factory=set)
    client: bool = False
    client_asked: bool = False
    """Whether the client asked for a response since."""
    over: bool = False
    completed: bool = False


class CallRounds:
    """Responses of one session that made calls."""

    def __init__(self) -> None:
        self._rounds: OrderedDict[str, _Round] = OrderedDict()

    def began(self, response: str) -> None:
        """A response began."""
        self._rounds[response] = _Round()
        if len(self._rounds) > MOST_RESPONSES:
            self._rounds.popitem(last=False)

    def calls(self, response: str, call: str) -> None:
        """A response made a call that the gateway runs."""
        self._of(response).waiting.add(call)

    def client_calls(self, response: str) -> None:
        """A response made a call that the client runs."""
        self._of(response).client = True

    def done(self, response: str, *, completed: bool) -> None:
        """A response is over; not `completed` where it was interrupted, or failed."""
        found = self._of(response)
        found.over = True
        found.completed = completed
        if not found.waiting:
            del self._rounds[response]

    def client_asks(self) -> None:
        """The client asks for a response."""
        for each in self._rounds.values():
            each.client_asked = True

    def answered(self, call: str) -> bool:
        """A result was sent. Whether the model is to go on now: it has all results of a response, and nobody else asks
        it to.
        """
        for response, found in self._rounds.items():
            if call in found.waiting:
                found.waiting.discard(call)
                if found.waiting or not found.over:
                    return False
                del self._rounds[response]
                return found.completed and (not found.client or found.client_asked)
        return False

    def _of(self, response: str) -> _Round:
        return self._rounds.setdefault(response, _Round())


MOST_HIDDEN: Final = 4096
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
            if len(self._before) > MOST_HIDDEN:
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
        for _ in range(MOST_HIDDEN):
            if found is None or found not in self._before:
                return found
            found = self._before[found]
        return None


MOST_EVENTS: Final = 256
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
        if len(self._items) > MOST_EVENTS:
            self._items.popitem(last=False)
        return event_id

    def refused(self, event_id: str) -> str:
        """Item of an event that was refused; it is forgotten."""
        return self._items.pop(event_id)
