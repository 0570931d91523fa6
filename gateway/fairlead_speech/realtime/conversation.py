"""State of a Realtime session's default conversation: responses and their calls, hidden items, and gateway events.

A conversation has one response at a time, and a `response.create` of the client has priority over one of the gateway.
An *output* is the `function_call_output` of a call that the gateway ran. A response takes an output into account if it
was created after the provider confirmed the output. If it was created before, the gateway requests another response at
its end. Does no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from fairlead_speech.realtime.events import Event, member, members, new_id, text

MAX_RESPONSES: Final = 64
"""Maximum number of stored responses with calls."""
MAX_HIDDEN: Final = 4096
"""Maximum number of stored ids of hidden items."""
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
MAX_EVENTS: Final = 256
"""Maximum number of stored event ids to which an `error` may refer."""
CLIENT_REQUEST: Final = "client"
"""Item that is recorded for a client's `response.create` to which the gateway added an `event_id`."""


class ResponseState:
    """State of the default conversation: idle, requested or responding, and whether the user speaks."""

    def __init__(self) -> None:
        self.active = False
        """Whether a response is in progress."""
        self.requested = False
        """Whether client or gateway requested a response that is not created yet."""
        self.gateway_requested = False
        """Whether the gateway requested it."""
        self.speaking = False
        """Whether the user is speaking, or has spoken and gets a response next."""
        self.engine_answers = False
        """Whether a cascaded engine answers the turn, or may answer it after the choice of the tier."""
        self.creates_response = True
        """Whether the provider creates responses at the end of speech (`turn_detection.create_response`)."""
        self._wanted = False
        self._covered = False
        """Whether a response was created since the gateway's last request, and takes all outputs into account."""
        self._unconfirmed: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether the gateway may request a response: none is in progress, requested, or given by an engine."""
        return not self.active and not self.requested and not self.engine_answers

    @property
    def busy(self) -> bool:
        """Whether a response is in progress, requested, or due to be requested."""
        return not self.idle or self._wanted

    def configure(self, session: Event) -> None:
        """Read `creates_response` from the session that the provider sent."""
        audio = member(member(session, "audio"), "input")
        if "turn_detection" in audio:
            detection = audio["turn_detection"]
            create_response = member(audio, "turn_detection").get("create_response", True)
            self.creates_response = detection is not None and create_response is not False

    def on_client_request(self) -> None:
        """Record the client's `response.create`. Its response takes the outputs sent so far into account."""
        self.requested = True

    def on_response_created(self) -> None:
        """Record a `response.created`."""
        self.active = True
        self.requested = self.gateway_requested = False
        if self.creates_response:
            self.speaking = False
        self._covered = not self._unconfirmed
        if self._covered:
            self._wanted = False

    def on_response_done(self) -> None:
        """Record a `response.done`."""
        self.active = False

    def want_response(self) -> None:
        """Note that a response is due, as all outputs of the previous one were sent. Not while the user speaks, as the
        outputs are then answered together with the user's turn.
        """
        self._wanted = not self.speaking

    def add_output(self, item: str) -> None:
        """Record that an output was sent as an item."""
        self._unconfirmed.add(item)

    def confirm_output(self, item: str) -> None:
        """Record that the provider added or refused the item of an output."""
        self._unconfirmed.discard(item)

    def claim_request(self) -> bool:
        """Return whether the gateway must send `response.create` now. If so, a response counts as requested."""
        if not self._wanted or not self.idle or self.speaking:
            return False
        self.requested = self.gateway_requested = True
        self._wanted = self._covered = False
        return True

    def on_request_refused(self, *, active: bool) -> None:
        """Record the refusal of the gateway's `response.create`. `active`: whether the reason is an active response,
        after which the gateway requests another one unless that takes all outputs into account.
        """
        self.requested = self.gateway_requested = False
        if active:
            self.active = True
            self._wanted = not self._covered

    def on_client_request_refused(self) -> None:
        """Record the refusal of the client's `response.create`."""
        self.requested = self.gateway_requested

    def on_speech_started(self) -> None:
        """Record `input_audio_buffer.speech_started`. Outputs sent so far are answered together with this turn."""
        self.speaking = True
        self._wanted = False

    def on_buffer_cleared(self) -> None:
        """Record `input_audio_buffer.cleared`."""
        self.speaking = False

    def on_buffer_committed(self) -> None:
        """Record `input_audio_buffer.committed`, by which the turn became an item of the conversation."""
        if not self.creates_response:
            self.speaking = False


class _PendingResponse(msgspec.Struct):
    waiting: set[str] = msgspec.field(default_factory=set)
    calls_client: bool = False
    client_requested: bool = False
    """Whether the client has sent `response.create` since the response."""
    done: bool = False
    completed: bool = False
    calls: set[str] = msgspec.field(default_factory=set)
    """Ids of all its calls to tools of the gateway."""


class ResponseCalls:
    """Function calls of each response, by which it is decided when the gateway requests the next response.

    That is when all outputs of the gateway's tools were sent. If a response also calls tools of the client, the client
    requests the next response.
    """

    def __init__(self) -> None:
        self._pending: OrderedDict[str, _PendingResponse] = OrderedDict()

    def add_response(self, response: str) -> None:
        """Add a response."""
        self._pending[response] = _PendingResponse()
        if len(self._pending) > MAX_RESPONSES:
            self._pending.popitem(last=False)

    def add_call(self, response: str, call: str) -> bool:
        """Add a call of a response to a tool of the gateway. Returns False if the response has a call with this id."""
        pending = self._response(response)
        if call in pending.calls:
            return False
        pending.calls.add(call)
        pending.waiting.add(call)
        return True

    def add_client_call(self, response: str) -> None:
        """Record that a response calls a tool of the client."""
        self._response(response).calls_client = True

    def finish_response(self, response: str, *, completed: bool) -> None:
        """Record the end of a response. `completed`: whether it was neither interrupted nor failed."""
        pending = self._response(response)
        pending.done = True
        pending.completed = completed
        if not pending.waiting:
            del self._pending[response]

    def on_client_request(self) -> None:
        """Record the client's `response.create`."""
        for each in self._pending.values():
            each.client_requested = True

    def finish_call(self, call: str) -> bool:
        """Record the output of a call, which answers the calls of its id in all responses. Returns True if the gateway
        must request the next response: all outputs of a completed response were sent, and the client does not request
        it.
        """
        wanted = False
        for response, pending in [*self._pending.items()]:
            if call not in pending.waiting:
                continue
            pending.waiting.discard(call)
            if pending.done and not pending.waiting:
                del self._pending[response]
                wanted = wanted or (pending.completed and (not pending.calls_client or pending.client_requested))
        return wanted

    def _response(self, response: str) -> _PendingResponse:
        return self._pending.setdefault(response, _PendingResponse())


class HiddenItems:
    """Items that are hidden from the client: calls of the gateway's tools, their outputs, and messages that only the
    provider gets.
    """

    def __init__(self) -> None:
        self._previous: OrderedDict[str, str | None] = OrderedDict()
        """Id of the item before each hidden item; None: unknown."""

    def __contains__(self, item: str) -> bool:
        return item in self._previous

    def hide(self, item: str) -> None:
        """Hide an item from the client."""
        if item and item not in self._previous:
            self._previous[item] = None
            if len(self._previous) > MAX_HIDDEN:
                self._previous.popitem(last=False)

    def visible_event(self, kind: str, event: Event) -> Event | None:
        """Translate an event about an item for the client. Returns None for a hidden item, and the same object if
        nothing has to be changed.
        """
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
        """Remove hidden items from a `response.done`. Returns the same object if it has none."""
        response = member(event, "response")
        output = members(response, "output")
        visible = [item for item in output if text(item, "id") not in self._previous]
        return event if len(visible) == len(output) else {**event, "response": {**response, "output": visible}}

    def _visible_predecessor(self, item: str) -> str | None:
        """Id of the nearest item before `item` that is visible to the client."""
        predecessor: str | None = item
        for _ in range(MAX_HIDDEN):
            if predecessor is None or predecessor not in self._previous:
                return predecessor
            predecessor = self._previous[predecessor]
        return None


class GatewayEvents:
    """Ids that the gateway gave to events, by which an `error` about one of them is recognized, with the items that
    the events create.
    """

    def __init__(self) -> None:
        self._items: OrderedDict[str, str] = OrderedDict()

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._items

    def add(self, item: str) -> str:
        """Make the id of an event that creates `item`; empty: the event creates none."""
        event_id = new_id()
        self._items[event_id] = item
        if len(self._items) > MAX_EVENTS:
            self._items.popitem(last=False)
        return event_id

    def pop(self, event_id: str) -> str:
        """Remove the id of a refused event. Returns the item of the event."""
        return self._items.pop(event_id)
