"""State of the default conversation of an OpenAI Realtime session: responses and their calls, items hidden from the
client, and the gateway's own events.

A conversation has one response at a time. If both client and gateway need a response, the client's `response.create`
has priority. In this module, an *output* is the item `function_call_output` with the result of a call that the gateway
ran. A response takes into account the outputs that the provider has confirmed before the response was created. For
later outputs, the gateway requests another response when the current response ends. Does no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from fairlead_speech.realtime.events import Event, member, members, new_id, text

MAX_RESPONSES: Final = 64
"""Maximum number of responses with calls that are stored."""
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
"""Maximum number of stored ids of the gateway's events, by which an `error` about one of them is recognized."""
CLIENT_REQUEST: Final = "client"
"""Value that is stored, in place of an item id, for a client's `response.create` to which the gateway added an
`event_id`.
"""


class ResponseState:
    """State of the default conversation: whether a response is requested or in progress, and whether the user
    speaks.
    """

    def __init__(self) -> None:
        self.active = False
        """Whether a response is in progress."""
        self.requested = False
        """Whether client or gateway requested a response that the provider has not created yet."""
        self.gateway_requested = False
        """Whether that response was requested by the gateway, not by the client."""
        self.speaking = False
        """Whether the user is speaking, or has spoken and the provider will create a response to the speech."""
        self.engine_answers = False
        """Whether a cascaded engine answers the turn, or may do so once the tier is chosen."""
        self.creates_response = True
        """Whether the provider creates a response at the end of speech (`turn_detection.create_response`)."""
        self._request_needed = False
        """Whether the gateway has to request a response as soon as that is possible."""
        self._covers_outputs = False
        """Whether a response that takes all outputs into account was created after the gateway's last request."""
        self._unconfirmed_ids: set[str] = set()
        """Ids of the items of outputs that the provider has neither added nor refused yet."""

    @property
    def idle(self) -> bool:
        """Whether the gateway may request a response: no response is in progress or requested, and no engine
        answers.
        """
        return not self.active and not self.requested and not self.engine_answers

    @property
    def busy(self) -> bool:
        """Whether a response is in progress or requested, an engine answers, or the gateway has yet to request a
        response.
        """
        return not self.idle or self._request_needed

    def configure(self, session: Event) -> None:
        """Read `creates_response` from a session configuration that the provider sent."""
        audio = member(member(session, "audio"), "input")
        if "turn_detection" in audio:
            detection = audio["turn_detection"]
            create_response = member(audio, "turn_detection").get("create_response", True)
            self.creates_response = detection is not None and create_response is not False

    def on_client_request(self) -> None:
        """Record the client's `response.create`. Its response will take all outputs sent so far into account."""
        self.requested = True

    def on_response_created(self) -> None:
        """Record a `response.created`."""
        self.active = True
        self.requested = self.gateway_requested = False
        if self.creates_response:
            self.speaking = False
        self._covers_outputs = not self._unconfirmed_ids
        if self._covers_outputs:
            self._request_needed = False

    def on_response_done(self) -> None:
        """Record a `response.done`."""
        self.active = False

    def want_response(self) -> None:
        """Record that the gateway has to request a response, because all outputs of the previous response were sent.
        Ignored while the user speaks: the response to the user's turn then takes the outputs into account.
        """
        self._request_needed = not self.speaking

    def add_output(self, item_id: str) -> None:
        """Record that an output was sent to the provider. `item_id`: id of the output's item."""
        self._unconfirmed_ids.add(item_id)

    def confirm_output(self, item_id: str) -> None:
        """Record that the provider added the item of an output, or refused it."""
        self._unconfirmed_ids.discard(item_id)

    def claim_request(self) -> bool:
        """Return whether the gateway must send `response.create` now. If so, record that a response is requested."""
        if not self._request_needed or not self.idle or self.speaking:
            return False
        self.requested = self.gateway_requested = True
        self._request_needed = self._covers_outputs = False
        return True

    def on_request_refused(self, *, active: bool) -> None:
        """Record that the provider refused the gateway's `response.create`. `active`: whether the reason is that a
        response is in progress. In that case, the gateway repeats its request later, unless the response in progress
        takes all outputs into account.
        """
        self.requested = self.gateway_requested = False
        if active:
            self.active = True
            self._request_needed = not self._covers_outputs

    def on_client_request_refused(self) -> None:
        """Record that the provider refused the client's `response.create`."""
        self.requested = self.gateway_requested

    def on_speech_started(self) -> None:
        """Record `input_audio_buffer.speech_started`. The response to the user's turn will take all outputs sent so far
        into account.
        """
        self.speaking = True
        self._request_needed = False

    def on_buffer_cleared(self) -> None:
        """Record `input_audio_buffer.cleared`, which ends the user's turn without a response."""
        self.speaking = False

    def on_buffer_committed(self) -> None:
        """Record `input_audio_buffer.committed`, by which the user's turn became an item of the conversation."""
        if not self.creates_response:
            self.speaking = False


class _PendingResponse(msgspec.Struct):
    open_calls: set[str] = msgspec.field(default_factory=set)
    """Ids of calls of the gateway's tools whose outputs have not been sent."""
    calls_client: bool = False
    """Whether the response also calls tools of the client."""
    client_requested: bool = False
    """Whether the client has sent `response.create` since this response began."""
    ended: bool = False
    completed: bool = False
    """Whether the response was neither interrupted nor failed."""
    calls: set[str] = msgspec.field(default_factory=set)
    """Ids of all calls in the response to tools of the gateway."""


class ResponseCalls:
    """Function calls of each response, by which the gateway decides when to request the next response.

    The gateway requests the next response when it has sent all outputs of its tools. If the response also calls tools
    of the client, the client requests the next response instead.
    """

    def __init__(self) -> None:
        self._pending: OrderedDict[str, _PendingResponse] = OrderedDict()

    def add_response(self, response_id: str) -> None:
        """Add a response."""
        self._pending[response_id] = _PendingResponse()
        if len(self._pending) > MAX_RESPONSES:
            self._pending.popitem(last=False)

    def add_call(self, response_id: str, call_id: str) -> bool:
        """Add a call of a response to a tool of the gateway. Returns False if the response already has a call with this
        id.
        """
        pending_response = self._response(response_id)
        if call_id in pending_response.calls:
            return False
        pending_response.calls.add(call_id)
        pending_response.open_calls.add(call_id)
        return True

    def add_client_call(self, response_id: str) -> None:
        """Record that a response calls a tool of the client."""
        self._response(response_id).calls_client = True

    def finish_response(self, response_id: str, *, completed: bool) -> None:
        """Record the end of a response. `completed`: whether it was neither interrupted nor failed."""
        pending_response = self._response(response_id)
        pending_response.ended = True
        pending_response.completed = completed
        if not pending_response.open_calls:
            del self._pending[response_id]

    def on_client_request(self) -> None:
        """Record the client's `response.create`."""
        for pending_response in self._pending.values():
            pending_response.client_requested = True

    def finish_call(self, call_id: str) -> bool:
        """Record that the output of a call was sent. The output answers the calls with this id in all responses.
        Returns True if the gateway must request the next response: all outputs of a completed response were sent, and
        the client will not request the next response itself.
        """
        request_needed = False
        for response_id, pending_response in [*self._pending.items()]:
            if call_id not in pending_response.open_calls:
                continue
            pending_response.open_calls.discard(call_id)
            if pending_response.ended and not pending_response.open_calls:
                del self._pending[response_id]
                request_needed = request_needed or (
                    pending_response.completed
                    and (not pending_response.calls_client or pending_response.client_requested)
                )
        return request_needed

    def _response(self, response_id: str) -> _PendingResponse:
        return self._pending.setdefault(response_id, _PendingResponse())


class HiddenItems:
    """Items that are hidden from the client: calls of the gateway's tools, their outputs, and messages that only the
    provider gets.
    """

    def __init__(self) -> None:
        self._previous_ids: OrderedDict[str, str | None] = OrderedDict()
        """By id of a hidden item: id of the previous item; None if unknown."""

    def __contains__(self, item: str) -> bool:
        return item in self._previous_ids

    def hide(self, item_id: str) -> None:
        """Hide an item from the client."""
        if item_id and item_id not in self._previous_ids:
            self._previous_ids[item_id] = None
            if len(self._previous_ids) > MAX_HIDDEN:
                self._previous_ids.popitem(last=False)

    def visible_event(self, kind: str, event: Event) -> Event | None:
        """Translate an event about an item for the client. Returns None if the item is hidden, and the event object
        itself if nothing has to be changed.
        """
        item_id = text(member(event, "item"), "id") or text(event, "item_id")
        previous_id = event.get("previous_item_id")
        if kind in _ITEM_EVENTS and item_id in self._previous_ids:
            if isinstance(previous_id, str):
                self._previous_ids[item_id] = previous_id
            return None
        if isinstance(previous_id, str) and previous_id in self._previous_ids:
            return {**event, "previous_item_id": self._visible_predecessor(previous_id)}
        return event

    def visible_response(self, event: Event) -> Event:
        """Remove hidden items from a `response.done`. Returns the event object itself if there are none."""
        response = member(event, "response")
        output = members(response, "output")
        visible_items = [item for item in output if text(item, "id") not in self._previous_ids]
        if len(visible_items) == len(output):
            return event
        return {**event, "response": {**response, "output": visible_items}}

    def _visible_predecessor(self, item_id: str) -> str | None:
        """Id of the nearest item before `item_id` that is visible to the client."""
        predecessor: str | None = item_id
        for _ in range(MAX_HIDDEN):
            if predecessor is None or predecessor not in self._previous_ids:
                return predecessor
            predecessor = self._previous_ids[predecessor]
        return None


class GatewayEvents:
    """Ids of the events that the gateway sends, each with the id of the item that the event creates. By its `event_id`,
    an `error` about one of these events is recognized.
    """

    def __init__(self) -> None:
        self._item_ids: OrderedDict[str, str] = OrderedDict()

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._item_ids

    def add(self, item_id: str) -> str:
        """Make the id of an event that creates the item `item_id`; an empty id stands for an event without an item."""
        event_id = new_id()
        self._item_ids[event_id] = item_id
        if len(self._item_ids) > MAX_EVENTS:
            self._item_ids.popitem(last=False)
        return event_id

    def pop(self, event_id: str) -> str:
        """Remove the id of an event that was refused. Returns the id of the item that it would have created."""
        return self._item_ids.pop(event_id)
