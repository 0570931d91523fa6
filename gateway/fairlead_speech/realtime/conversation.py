"""State of the default conversation of a Realtime session: its responses and their calls, hidden items, own events.

Pure. A conversation has one response at a time, and the client's own request for the next one comes first. An *output*
is the result of a call that the gateway ran. A response that began after the provider took an output has heard of it;
for one that did not, another response is asked for when that one is done.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from fairlead_speech.realtime.events import Event, member, members, new_id, text


class ResponseState:
    """State of the default conversation of one session: free, asked, or answering; and who speaks."""

    def __init__(self) -> None:
        self.active = False
        """Whether a response is in progress."""
        self.requested = False
        """Whether one was asked for, by the client or by the gateway, and has not begun."""
        self.speaking = False
        """Whether the user speaks, or has just spoken and is about to be answered."""
        self.answered_elsewhere = False
        """Whether somebody else answers the turn, or is about to decide who does."""
        self.creates_response = True
        """Whether the provider answers by itself when the user has spoken (`create_response`)."""
        self._wanted = False
        self._unconfirmed: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered, and no answer was asked for."""
        return not self.active and not self.requested and not self.answered_elsewhere

    @property
    def busy(self) -> bool:
        """Whether the model is answering, or is to answer."""
        return not self.idle or self._wanted

    def configure(self, session: Event) -> None:
        """Take from the provider's session whether it answers speech by itself."""
        audio = member(member(session, "audio"), "input")
        if "turn_detection" in audio:
            detection = audio["turn_detection"]
            creates = member(audio, "turn_detection").get("create_response", True)
            self.creates_response = detection is not None and creates is not False

    def on_client_request(self) -> None:
        """The client asks for a response: the gateway does not, for what is there by now."""
        self.requested = True
        self._wanted = False

    def on_response_created(self) -> None:
        """A response began, asked for or by itself."""
        self.active = True
        self.requested = False
        if self.creates_response:
            self.speaking = False
        if not self._unconfirmed:
            self._wanted = False

    def on_response_done(self) -> None:
        """The response is over."""
        self.active = False

    def want_response(self) -> None:
        """All outputs of a response were sent: the model is to go on."""
        self._wanted = not self.speaking

    def add_output(self, item: str) -> None:
        """An output was sent, as an item."""
        self._unconfirmed.add(item)

    def confirm_output(self, item: str) -> None:
        """The provider has an item, or refused it."""
        self._unconfirmed.discard(item)

    def claim_request(self) -> bool:
        """Whether the gateway is to ask for a response now; it counts as asked then."""
        if not self._wanted or not self.idle or self.speaking:
            return False
        self.requested = True
        self._wanted = False
        return True

    def on_request_refused(self, *, active: bool) -> None:
        """The gateway's request for a response was refused; `active`: because there is one already."""
        self.requested = False
        if active:
            self.active = self._wanted = True

    def on_client_request_refused(self) -> None:
        """The client's request for a response was refused."""
        self.requested = False

    def on_speech_started(self) -> None:
        """The user speaks. What was to be said is said with the answer to that."""
        self.speaking = True
        self._wanted = False

    def on_buffer_cleared(self) -> None:
        """The client threw away what the user said."""
        self.speaking = False

    def on_buffer_committed(self) -> None:
        """Take the end of a turn of speech, which is in the conversation now."""
        if not self.creates_response:
            self.speaking = False


MOST_RESPONSES: Final = 64
"""Responses with calls that are remembered."""


class _PendingResponse(msgspec.Struct):
    waiting: set[str] = msgspec.field(default_factory=set)
    calls_client: bool = False
    client_requested: bool = False
    """Whether the client asked for a response since."""
    done: bool = False
    completed: bool = False


class ResponseCalls:
    """Responses of one session that made calls."""

    def __init__(self) -> None:
        self._pending: OrderedDict[str, _PendingResponse] = OrderedDict()

    def add_response(self, response: str) -> None:
        """A response began."""
        self._pending[response] = _PendingResponse()
        if len(self._pending) > MOST_RESPONSES:
            self._pending.popitem(last=False)

    def add_call(self, response: str, call: str) -> None:
        """A response made a call that the gateway runs."""
        self._response(response).waiting.add(call)

    def add_client_call(self, response: str) -> None:
        """A response made a call that the client runs."""
        self._response(response).calls_client = True

    def finish_response(self, response: str, *, completed: bool) -> None:
        """A response is over; not `completed` where it was interrupted, or failed."""
        pending = self._response(response)
        pending.done = True
        pending.completed = completed
        if not pending.waiting:
            del self._pending[response]

    def on_client_request(self) -> None:
        """The client asks for a response."""
        for each in self._pending.values():
            each.client_requested = True

    def finish_call(self, call: str) -> bool:
        """A result was sent. Whether the model is to go on now: it has all results of a response, and nobody else asks
        it to.
        """
        for response, pending in self._pending.items():
            if call in pending.waiting:
                pending.waiting.discard(call)
                if pending.waiting or not pending.done:
                    return False
                del self._pending[response]
                return pending.completed and (not pending.calls_client or pending.client_requested)
        return False

    def _response(self, response: str) -> _PendingResponse:
        return self._pending.setdefault(response, _PendingResponse())


MOST_HIDDEN: Final = 4096
"""Hidden items that are remembered."""
_ITEM_EVENTS: Final = frozenset(
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
        self._previous: OrderedDict[str, str | None] = OrderedDict()
        """By id: the item in front of it, where that is known."""

    def __contains__(self, item: str) -> bool:
        return item in self._previous

    def hide(self, item: str) -> None:
        """Hide an item from now on."""
        if item and item not in self._previous:
            self._previous[item] = None
            if len(self._previous) > MOST_HIDDEN:
                self._previous.popitem(last=False)

    def visible_event(self, kind: str, event: Event) -> Event | None:
        """An event about an item as the client sees it; None where it does not. The same object: it is unchanged."""
        item = text(member(event, "item"), "id") or text(event, "item_id")
        previous = event.get("previous_item_id")
        if kind in _ITEM_EVENTS and item in self._previous:
            if isinstance(previous, str):
                self._previous[item] = previous
            return None
        if isinstance(previous, str) and previous in self._previous:
            return {**event, "previous_item_id": self._visible_predecessor(previous)}
        return event

    def visible_response(self, event: Event) -> Event:
        """A `response.done` without hidden items. The same object: it has none."""
        response = member(event, "response")
        output = members(response, "output")
        visible = [item for item in output if text(item, "id") not in self._previous]
        return event if len(visible) == len(output) else {**event, "response": {**response, "output": visible}}

    def _visible_predecessor(self, item: str) -> str | None:
        """The last item in front that the client has seen."""
        predecessor: str | None = item
        for _ in range(MOST_HIDDEN):
            if predecessor is None or predecessor not in self._previous:
                return predecessor
            predecessor = self._previous[predecessor]
        return None


MOST_EVENTS: Final = 256
"""Events that are remembered until they are refused."""
CLIENT_REQUEST: Final = "client"
"""Mark of a client's request for a response, in place of an item, where the gateway gave it its id."""


class GatewayEvents:
    """Events of one session, with the items that they make."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, str] = OrderedDict()

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._items

    def add(self, item: str) -> str:
        """Id of a new event, which makes that item."""
        event_id = new_id()
        self._items[event_id] = item
        if len(self._items) > MOST_EVENTS:
            self._items.popitem(last=False)
        return event_id

    def pop(self, event_id: str) -> str:
        """Item of an event that was refused; it is forgotten."""
        return self._items.pop(event_id)
