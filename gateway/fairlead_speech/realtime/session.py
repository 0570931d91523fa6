"""OpenAI Realtime session between a client and the provider, to which the gateway adds its tools.

The client sends and receives the events of the provider's API. The gateway's tools, their calls and their outputs are
hidden from the client. Wire format: OpenAI Realtime API, general availability.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import Carry, ModelCall, read_arguments
from fairlead_formats.registry import message_format
from fairlead_mcp.misread_values import explain_misreading
from fairlead_offers.offer.offers import ToolOffer
from fairlead_offers.problems import RATE_LIMITED
from fairlead_speech.messages import MessageReader, UnreadableMessage
from fairlead_speech.realtime import events
from fairlead_speech.realtime.conversation import (
    CLIENT_REQUEST,
    GatewayEvents,
    HiddenItems,
    ResponseCalls,
    ResponseState,
)
from fairlead_speech.realtime.events import CLIENT_MESSAGES, PROVIDER_MESSAGES, Event, member, members, text
from fairlead_speech.realtime.tools import SessionTools, has_provider_mcp
from fairlead_speech.session import OVER_BUDGET, MessageSink, SessionEnd, close_over_budget
from fairlead_speech.tiers import UnknownTier, UserText
from fairlead_speech.tools import SpeechContext, TierTools, TierUpdate, ToolCallHandler, media_parts

ENGINE: Final = "openai-realtime"
SESSION_UPDATE: Final = "fairlead.session.update"
"""Type of the gateway's own event by which a client changes its session: `{tier?, queue_depth?}`."""
_MCP_REFUSED: Final = (
    "tools of type mcp are refused: the provider would call them itself, bypassing this gateway's policies and audit "
    "log; remove them from the event, the gateway adds the tools of its own servers"
)
TOOL_RESULT: Final = "fairlead.tool_result"
"""Type of the gateway's own event to a client with those parts of a tool's result that cannot be spoken."""
_CARRY: Final = Carry(images=False)
_INPUT_EVENTS: Final = frozenset(
    {
        "conversation.item.create",
        "conversation.item.delete",
        "conversation.item.truncate",
        "input_audio_buffer.commit",
    }
)
"""Events by which a client changes what the next response answers."""
_TRANSCRIPT_EVENTS: Final = frozenset({f"{events.TRANSCRIPT}delta", f"{events.TRANSCRIPT}completed"})
_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class RealtimeSession:
    """Realtime session of one client with one provider. Its owner calls `aclose` at the end."""

    client_messages: MessageReader = CLIENT_MESSAGES
    provider_messages: MessageReader = PROVIDER_MESSAGES

    def __init__(
        self,
        client: MessageSink,
        provider: MessageSink,
        context: SpeechContext,
        *,
        waits_for_transcript: bool = False,
        end: SessionEnd | None = None,
    ) -> None:
        """`waits_for_transcript`: whether the provider responds to a turn only after the gateway has read the turn's
        transcript, and accepts changes of the tools until then. `end`: if this session only answers turns of another
        session, the `SessionEnd` of that other session.
        """
        self._client = client
        self._provider = provider
        self._context = context
        self._waits_for_transcript = waits_for_transcript
        self._tools = SessionTools()
        self._responses = ResponseState()
        self._hidden = HiddenItems()
        self._response_calls = ResponseCalls()
        toolbox = context.toolbox
        self._tier_tools = TierTools(self, context, lambda: self._tools.client_names)
        self._calls = ToolCallHandler(self, toolbox.run, toolbox.interruptible, context.engine, context.metrics)
        self._outputs: list[tuple[str, Event]] = []
        """Outputs that wait for the end of a response: the call's id, and the event `conversation.item.create`."""
        self._gateway_events = GatewayEvents()
        """Events that the gateway sends. Their refusals by the provider are hidden from the client."""
        self._held_request: bytes | None = None
        """The client's `response.create` that is held back until the provider has answered the gateway's."""
        self._has_later_input = False
        """Whether the client has sent input since the gateway's `response.create`; the requested response may not take
        that input into account.
        """
        self._has_begun = False
        """Whether the provider has sent `session.created`."""
        self._supports_tools = True
        """Whether sessions of this type can have tools."""
        self.end = end or SessionEnd()

    @property
    def responding(self) -> bool:
        """Whether the model is responding, or will respond after a tool call that is running."""
        return self._responses.busy or bool(self._calls.running)

    # SpeechSession

    async def set_tools(self, offer: ToolOffer) -> None:
        """Set the tools of the model: at once between two responses, else after the response in progress."""
        self._tools.set_offer(offer)
        await self._send_pending()

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Send the result of a call to the model, and the result's images, audio and files to the client."""
        parts = media_parts(result)
        if parts:
            event = {
                "type": TOOL_RESULT,
                "event_id": events.new_id(),
                "call_id": call.id,
                "name": call.wire_name,
            }
            await self._client.send(_encode({**event, "content": parts}))
        written_results = message_format(ENGINE).write_results([call], [result], _CARRY)
        item_events = (event for event in written_results.messages if event.get("type") == "conversation.item.create")
        self._outputs += [(call.id, event) for event in item_events]
        await self._send_pending()

    # For routed sessions

    @property
    def tier(self) -> str | None:
        """Name of the session's current tier; None stands for the principal's default tier."""
        return self._tier_tools.tier

    @property
    def speaking(self) -> bool:
        """Whether the user is speaking."""
        return self._responses.speaking

    @property
    def creates_response(self) -> bool:
        """Whether the provider creates a response by itself at the end of speech."""
        return self._responses.creates_response

    async def wait_for_texts(self) -> None:
        """Wait until the tier has been chosen by all transcripts that were received so far."""
        await self._tier_tools.wait_for_texts()

    async def offer_tools(self) -> None:
        """Offer the model the current tools of the session's tier."""
        await self._tier_tools.offer_tools()

    async def hold(self, *, engine_answers: bool) -> None:
        """Stop requesting responses of the provider while a cascaded engine answers a turn. `engine_answers=False`:
        send the requests and outputs that were held back.
        """
        self._responses.engine_answers = engine_answers
        await self._send_pending()

    async def request_response(self) -> None:
        """Request the provider's response to the user's turn."""
        self._responses.want_response()
        await self.hold(engine_answers=False)

    async def finish_client_calls(self) -> None:
        """Record that the client has sent the results of all calls of its own tools. The model is asked to continue
        when the gateway's outputs have been sent too.
        """
        self._response_calls.on_client_request()
        if not self._calls.running:
            await self.request_response()

    async def update_session(self, session: Event) -> str:
        """Send the provider a `session.update` that is hidden from the client. Returns the update's `event_id`."""
        event = self._tools.session_change(session)
        await self._provider.send(_encode(event))
        return text(event, "event_id")

    async def add_message(self, text: str) -> str:
        """Add a message of the assistant, which is hidden from the client, to the provider's conversation. Returns the
        id of the message's item.
        """
        item_id = events.new_id()
        self._hidden.hide(item_id)
        content = [{"type": "output_text", "text": text}]
        message = {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": content}
        event = {"type": "conversation.item.create", "event_id": self._gateway_events.add(item_id), "item": message}
        await self._provider.send(_encode(event))
        return item_id

    async def delete_item(self, item_id: str) -> None:
        """Delete a hidden item from the provider's conversation."""
        event = {"type": "conversation.item.delete", "event_id": self._gateway_events.add(item_id), "item_id": item_id}
        await self._provider.send(_encode(event))

    async def announce_drain(self, seconds: float) -> None:
        """Do nothing: Realtime has no event that announces the end of a session."""

    async def aclose(self) -> None:
        """Cancel the running tool calls and the pending choice of a tier."""
        await self._tier_tools.aclose()
        await self._calls.aclose()

    # Events of the client

    async def from_client(self, payload: bytes) -> bytes | None:
        """Translate an event of the client for the provider. Returns None if nothing is forwarded."""
        kind = events.event_type(payload)
        if kind == events.APPEND:  # may be large, so it is not decoded again
            return payload
        event = events.read(payload)
        if kind == "session.update":
            return await self._client_session_update(event)
        if kind == "response.create":
            return await self._client_response_create(payload, event)
        if kind == SESSION_UPDATE:
            await self._gateway_session_update(payload)
            return None
        if kind == "response.cancel":
            self._held_request = None
        if not await self._tools_allowed(event, None):
            return None
        if kind == "conversation.item.create":
            await self._client_item_create(event)
        self._has_later_input = self._has_later_input or kind in _INPUT_EVENTS
        return payload

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """Event `error` about a client's message that cannot be read. The session continues, as with OpenAI's
        server.
        """
        return events.error_event(str(error), "invalid_event", None, None)

    async def _tools_allowed(self, event: Event, param: str | None) -> bool:
        """Check that a client's event has no tools of type `mcp`, unless sessions may have such tools. If the check
        fails, the client gets an error. `param`: path of the tools within the event.
        """
        if self._context.provider_mcp or not has_provider_mcp(event):
            return True
        refusal = events.error_event(_MCP_REFUSED, "mcp_tools_refused", param, event.get("event_id"))
        await self._client.send(refusal)
        return False

    async def _gateway_session_update(self, payload: bytes) -> None:
        """Apply an event SESSION_UPDATE. If the event is invalid, the client gets an error."""
        try:
            await self._tier_tools.update(msgspec.json.decode(payload, type=TierUpdate))
        except (msgspec.MsgspecError, UnknownTier) as error:
            event_id = events.read(payload).get("event_id")
            message = str(error) if isinstance(error, UnknownTier) else explain_misreading(error, "the event")
            await self._client.send(events.error_event(message, "invalid_value", "tier", event_id))

    async def _client_session_update(self, event: Event) -> bytes | None:
        session = member(event, "session")
        if not await self._tools_allowed(event, "session.tools"):
            return None
        if session.get("type") == "transcription":
            self._supports_tools = self._tier_tools.open = False
        if "tools" in session and self._supports_tools and self._has_begun:
            # a tool of the client may have the name of a tool in the offer: build the offer again without that name
            names = frozenset(text(tool, "name") for tool in members(session, "tools"))
            offer = await self._tier_tools.build_offer(names)
            if offer is not None:
                self._tools.set_offer(offer)
        # no `await` between recording an update and sending it: the provider answers updates in the order in which they
        # were sent
        return _encode(self._tools.client_update(event))

    async def _client_response_create(self, payload: bytes, event: Event) -> bytes | None:
        response = member(event, "response")
        if not await self._tools_allowed(event, "response.tools"):
            return None
        self._tools.on_client_response(response)
        if not text(event, "event_id"):
            # without an id, an `error` about this event could not be attributed to the event
            payload = _encode({**event, "event_id": self._gateway_events.add(CLIENT_REQUEST)})
        if response.get("conversation") == "none":
            return payload
        if self._responses.gateway_requested and self._held_request is None:
            # the gateway has already requested a response, so the provider would refuse the client's request, and the
            # client would not know why
            self._held_request = payload
            self._has_later_input = self._has_later_input or bool(response)
            return None
        self._on_client_request()
        return payload

    def _on_client_request(self) -> None:
        self._response_calls.on_client_request()
        self._responses.on_client_request()

    async def _client_item_create(self, event: Event) -> None:
        """Choose the tier by the text of a message that the user wrote."""
        item = member(event, "item")
        if user_text := events.written_text(item):
            turn = text(item, "id") or events.new_id()
            await self._tier_tools.choose_tier(UserText(turn, user_text, final=True, continues=False))

    # Events of the provider

    async def from_provider(self, payload: bytes) -> bytes | None:
        """Translate an event of the provider for the client. Returns None if nothing is forwarded."""
        kind = events.event_type(payload)
        event = events.read(payload)
        visible_event: Event | None = event
        if kind in ("session.created", "session.updated"):
            visible_event = await self._on_session(kind, event)
        elif kind == "error":
            visible_event = self._on_error(event)
            await self._send_pending()
        elif kind == "response.created":
            self._on_response_created(event)
        elif kind == "response.done":
            visible_event = self._hidden.visible_response(event)
            await self._client.send(payload if visible_event is event else _encode(visible_event))
            await self._on_response_done(event)
            return None
        elif kind.startswith("response."):
            visible_event = self._on_response_event(kind, event)
        elif kind.startswith("conversation.item."):
            visible_event = await self._on_item_event(kind, event)
        elif kind == "input_audio_buffer.speech_started":
            self._responses.on_speech_started()
            self._calls.interrupt()
        elif kind == "input_audio_buffer.committed":
            self._responses.on_buffer_committed()
            self._has_later_input = True
            await self._send_pending()
        elif kind == "input_audio_buffer.cleared":
            self._responses.on_buffer_cleared()
            await self._send_pending()
        return payload if visible_event is event else None if visible_event is None else _encode(visible_event)

    async def _on_session(self, kind: str, event: Event) -> Event | None:
        session = member(event, "session")
        self._responses.configure(session)
        if kind == "session.created" and not self._has_begun:
            self._has_begun = True
            self._supports_tools = self._supports_tools and session.get("type", "realtime") == "realtime"
            await self._client.send(_encode(event))
            self._tier_tools.open = self._supports_tools
            if self._supports_tools and self._context.toolbox.enabled:
                await self._context.tier.choose_first()
                await self._tier_tools.offer_tools()
            return None
        return self._tools.on_session_updated(event) if kind == "session.updated" else event

    def _on_error(self, event: Event) -> Event | None:
        error = member(event, "error")
        event_id = text(error, "event_id")
        code = text(error, "code")
        if event_id in self._gateway_events:
            item = self._gateway_events.pop(event_id)
            if item == CLIENT_REQUEST:
                self._responses.on_client_request_refused()
                return {**event, "error": {**error, "event_id": None}}
            log.info("The provider of a realtime session refused an event of the gateway: %s", code[:64])
            if item:
                self._responses.confirm_output(item)
            else:
                self._responses.on_request_refused(active=code == "conversation_already_has_active_response")
            return None
        update = self._tools.on_update_refused(event_id)
        if update is None:
            # the error has no id, so it is only probable that it refers to the client's `response.create`. If it refers
            # to another event, the provider refuses the gateway's next `response.create`, which is repeated later
            self._responses.on_client_request_refused()
            return event
        if update.by_gateway:
            log.warning(
                "The provider refused a session.update of the gateway, so the session keeps its previous tools and "
                "settings: %s",
                code[:64],
            )
            return None
        return {**event, "error": {**error, "event_id": None}} if update.without_id else event

    def _on_response_created(self, event: Event) -> None:
        response = member(event, "response")
        if response.get("conversation_id", "") is not None:  # null if out of band
            self._responses.on_response_created()
            if not self._has_later_input:
                self._held_request = None  # the response that has just begun also answers the client's request
            self._response_calls.add_response(text(response, "id"))
        self._context.record.begin_answer()

    async def _on_response_done(self, event: Event) -> None:
        response = member(event, "response")
        for item in members(response, "output"):  # some providers omit `response.output_item.done`
            self._start_call(text(response, "id"), item)
        usage = member(response, "usage")
        if usage:
            self._context.record.record_response(usage)
            if (closing := close_over_budget(self._context.record)) is not None:
                await self._client.send(events.error_event(closing.reason, RATE_LIMITED, None, None))
                self.end.request(OVER_BUDGET, closing)
                return
        if response.get("conversation_id", "") is not None:
            self._responses.on_response_done()
            self._response_calls.finish_response(text(response, "id"), completed=response.get("status") == "completed")
        await self._send_pending()

    def _on_response_event(self, kind: str, event: Event) -> Event | None:
        item = member(event, "item")
        if item.get("type") == "function_call":
            if self._tools.answers_call(text(item, "name")):
                self._hidden.hide(text(item, "id"))
            if kind == "response.output_item.done":
                self._start_call(text(event, "response_id"), item)
        return self._hidden.visible_event(kind, event)

    async def _on_item_event(self, kind: str, event: Event) -> Event | None:
        item = member(event, "item")
        if item.get("type") == "function_call" and self._is_hidden_call(item):
            self._hidden.hide(text(item, "id"))
        if text(item, "id") in self._hidden:
            self._responses.confirm_output(text(item, "id"))
        if kind in _TRANSCRIPT_EVENTS:
            final = kind.endswith("completed")
            transcript = text(event, "transcript" if final else "delta")
            self._tier_tools.add_text(UserText(text(event, "item_id"), transcript, final, continues=not final))
            if final and self._waits_for_transcript:
                await self._tier_tools.wait_for_texts()
        return self._hidden.visible_event(kind, event)

    # Internals

    def _is_hidden_call(self, item: Event) -> bool:
        """Whether the item of a call is hidden from the client. Completed calls of tools that are not the gateway's may
        be the client's own items, with which the client restores a conversation.
        """
        name = text(item, "name")
        if item.get("status") == "in_progress":
            return self._tools.answers_call(name)
        return self._tools.is_gateway_tool(name)

    def _start_call(self, response: str, item: Event) -> None:
        """Start a completed call of a gateway's tool. A call of an interrupted response is not run, because its
        arguments may be cut off.
        """
        if item.get("type") != "function_call" or item.get("status") != "completed":
            return
        ident, name = text(item, "call_id"), text(item, "name")
        if not self._tools.answers_call(name):
            self._response_calls.add_client_call(response)
            return
        if self._response_calls.add_call(response, ident):
            self._calls.begin(ModelCall(ident, name, read_arguments(item.get("arguments"))))

    async def _send_pending(self) -> None:
        """Send everything that waited for the end of a response: tools, outputs, and the request for the next
        response.
        """
        if not self._has_begun or not (
            self._responses.idle or (self._waits_for_transcript and not self._responses.active)
        ):
            return
        update = self._tools.gateway_update() if self._supports_tools else None
        if update is not None:
            await self._provider.send(_encode(update))
        if not self._responses.idle:
            return
        outputs, self._outputs = self._outputs, []
        for call, item_event in outputs:
            item_id = events.new_id()
            event_id = self._gateway_events.add(item_id)
            self._hidden.hide(item_id)
            self._responses.add_output(item_id)
            event = {**item_event, "event_id": event_id, "item": {**item_event["item"], "id": item_id}}
            await self._provider.send(_encode(event))
            if self._response_calls.finish_call(call):
                self._responses.want_response()
        if self._held_request is not None:
            request, self._held_request = self._held_request, None
            self._on_client_request()
            await self._provider.send(request)
        elif self._responses.claim_request():
            self._has_later_input = False
            await self._provider.send(_encode({"type": "response.create", "event_id": self._gateway_events.add("")}))
