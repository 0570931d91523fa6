"""Session of OpenAI Realtime between a client and the provider, with the tools of the gateway.

The client speaks to the gateway as to the provider, and sees what it would see there: tools of the gateway, their calls
and their results are left out of what it gets. Wire format: OpenAI Realtime API, general availability.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.arguments import read as read_arguments
from fairlead_formats.messages.call import Carry, ModelCall
from fairlead_formats.registry import message_format
from fairlead_models.request_record import RequestRecord
from fairlead_offers.offer.offers import ToolOffer
from fairlead_offers.problems import RATE_LIMITED
from fairlead_speech.messages import MessageReader, UnreadableMessage
from fairlead_speech.metrics import SpeechMetrics
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
from fairlead_speech.tiers import SpokenTier, UnknownTier, UserText
from fairlead_speech.tool_calls import ToolCallHandler, media_parts
from fairlead_speech.tools import SessionToolbox, TierTools, TierUpdate

ENGINE: Final = "openai-realtime"
TOOL_RESULT: Final = "fairlead.tool_result"
"""Event for a client: parts of a result that cannot be spoken."""
_CARRY: Final = Carry(images=False)
_TRANSCRIPT_EVENTS: Final = frozenset({f"{events.TRANSCRIPT}delta", f"{events.TRANSCRIPT}completed"})
_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class RealtimeSession:
    """One session. `aclose` it."""

    client_messages: MessageReader = CLIENT_MESSAGES
    provider_messages: MessageReader = PROVIDER_MESSAGES

    def __init__(
        self,
        client: MessageSink,
        provider: MessageSink,
        toolbox: SessionToolbox,
        tier: SpokenTier,
        record: RequestRecord,
        metrics: SpeechMetrics,
        engine: str = ENGINE,
        *,
        provider_mcp: bool,
        hears_first: bool = False,
        end: SessionEnd | None = None,
    ) -> None:
        """`provider_mcp`: whether a client may have the provider itself call MCP servers. `hears_first`: the provider
        answers only once the gateway has read what was heard, and takes other tools until then. `end`: of the session
        that this one answers turns of.
        """
        self._client = client
        self._provider = provider
        self._toolbox = toolbox
        self._tier = tier
        self._record = record
        self._waits_for_transcript = hears_first
        self._tools = SessionTools()
        self._responses = ResponseState()
        self._hidden = HiddenItems()
        self._response_calls = ResponseCalls()
        self._tier_tools = TierTools(self, engine, toolbox, tier, metrics, lambda: self._tools.client_names)
        self._wishes = ClientWishes(client, self._tier_tools, provider_mcp=provider_mcp)
        self._calls = ToolCallHandler(self, toolbox.run, toolbox.interruptible, engine, metrics)
        self._outputs: list[tuple[str, Event]] = []
        """Results that wait for the end of a response, with the ids of their calls."""
        self._gateway_events = GatewayEvents()
        """Those of the gateway, whose refusals the client does not hear of."""
        self._began = False
        self._takes_tools = True
        self.end = end or SessionEnd()

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        return self._responses.busy or bool(self._calls.running)

    # The interface of every engine

    async def set_tools(self, offer: ToolOffer) -> None:
        """Show these tools: at once between two responses, else after the one in progress."""
        self._tools.set_offer(offer)
        await self._send_pending()

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Give the model a result, and the client what cannot be spoken of it."""
        parts = media_parts(result)
        if parts:
            event = {
                "type": TOOL_RESULT,
                "event_id": events.new_id(),
                "call_id": call.id,
                "name": call.wire_name,
            }
            await self._client.send(_encode({**event, "content": parts}))
        written = message_format(ENGINE).write_results([call], [result], _CARRY)
        created = (each for each in written.messages if each.get("type") == "conversation.item.create")
        self._outputs += [(call.id, each) for each in created]
        await self._send_pending()

    # For who answers turns in the provider's place

    @property
    def tier(self) -> str | None:
        """The tier now; None: the principal's default one."""
        return self._tier_tools.tier

    @property
    def speaking(self) -> bool:
        """Whether the user speaks."""
        return self._responses.speaking

    @property
    def creates_response(self) -> bool:
        """Whether the provider answers speech by itself."""
        return self._responses.creates_response

    async def wait_for_texts(self) -> None:
        """Wait until the tier is chosen by all that was heard."""
        await self._tier_tools.wait_for_texts()

    async def show(self) -> None:
        """Show the tools of the tier, as they are now."""
        await self._tier_tools.show()

    async def hold(self, *, elsewhere: bool) -> None:
        """Ask for no response while a turn is answered `elsewhere`; then go on."""
        self._responses.answered_elsewhere = elsewhere
        await self._send_pending()

    async def request_response(self) -> None:
        """Have the provider answer the turn."""
        self._responses.want_response()
        await self.hold(elsewhere=False)

    async def finish_client_calls(self) -> None:
        """The client has answered all calls of its own: the provider goes on once ours are answered, too."""
        self._response_calls.on_client_request()
        if not self._calls.running:
            await self.request_response()

    async def update_session(self, session: Event) -> str:
        """Change the provider's session; the client does not hear of it. The id of the event."""
        event = self._tools.session_change(session)
        await self._provider.send(_encode(event))
        return text(event, "event_id")

    async def add_message(self, text: str) -> str:
        """Have the provider know what was said in its place, as an item that the client does not see; its id."""
        item = events.new_id()
        self._hidden.hide(item)
        content = [{"type": "output_text", "text": text}]
        shown = {"id": item, "type": "message", "role": "assistant", "status": "completed", "content": content}
        event = {"type": "conversation.item.create", "event_id": self._gateway_events.add(item), "item": shown}
        await self._provider.send(_encode(event))
        return item

    async def delete_item(self, item: str) -> None:
        """Take back what the provider was told."""
        event = {"type": "conversation.item.delete", "event_id": self._gateway_events.add(item), "item_id": item}
        await self._provider.send(_encode(event))

    async def announce_drain(self, seconds: float) -> None:
        """Do nothing: the format has no word for it."""

    async def aclose(self) -> None:
        """Cancel the calls that run, and drop what is not looked through."""
        await self._tier_tools.aclose()
        await self._calls.aclose()

    # Frames of the client

    async def from_client(self, payload: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        kind = events.event_type(payload)
        if kind == events.APPEND:  # a large one: it is not decoded again
            return payload
        event = events.read(payload)
        if kind == "session.update":
            return await self._client_session_update(event)
        if kind == "response.create":
            return await self._client_response_create(payload, event)
        if kind == SESSION_UPDATE:
            await self._wishes.take(payload)
            return None
        if not await self._wishes.allowed(event, None):
            return None
        if kind == "conversation.item.create":
            await self._client_item_create(event)
        return payload

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """An event `error`, as OpenAI's server answers what it cannot read: the session goes on."""
        return events.error_event(str(error), "invalid_event", None, None)

    async def _client_session_update(self, event: Event) -> bytes | None:
        session = member(event, "session")
        if not await self._wishes.allowed(event, "session.tools"):
            return None
        if session.get("type") == "transcription":
            self._takes_tools = self._tier_tools.open = False
        if "tools" in session and self._takes_tools and self._began:
            # a tool of the client's may have the name of one of ours: the offer is made anew beside them
            names = frozenset(text(tool, "name") for tool in members(session, "tools"))
            offer = await self._tier_tools.build_offer(names)
            if offer is not None:
                self._tools.set_offer(offer)
        # no wait from here to its sending: updates are answered in the order in which they are sent
        return _encode(self._tools.client_update(event))

    async def _client_response_create(self, payload: bytes, event: Event) -> bytes | None:
        response = member(event, "response")
        if not await self._wishes.allowed(event, "response.tools"):
            return None
        if response.get("conversation") != "none":
            self._response_calls.on_client_request()
            self._responses.on_client_request()
        if text(event, "event_id"):
            return payload
        # with an id, its refusal can be told from others
        return _encode({**event, "event_id": self._gateway_events.add(CLIENT_REQUEST)})

    async def _client_item_create(self, event: Event) -> None:
        """Hear what the user writes."""
        item = member(event, "item")
        if words := events.written_text(item):
            turn = text(item, "id") or events.new_id()
            await self._tier_tools.choose_tier(UserText(turn, words, final=True, continues=False))

    # Frames of the provider

    async def from_provider(self, payload: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
        kind = events.event_type(payload)
        event = events.read(payload)
        visible: Event | None = event
        if kind in ("session.created", "session.updated"):
            visible = await self._on_session(kind, event)
        elif kind == "error":
            visible = self._on_error(event)
            await self._send_pending()
        elif kind == "response.created":
            self._on_response_created(event)
        elif kind == "response.done":
            visible = self._hidden.visible_response(event)
            await self._client.send(payload if visible is event else _encode(visible))
            await self._on_response_done(event)
            return None
        elif kind.startswith("response."):
            visible = self._on_response_event(kind, event)
        elif kind.startswith("conversation.item."):
            visible = await self._on_item_event(kind, event)
        elif kind == "input_audio_buffer.speech_started":
            self._responses.on_speech_started()
            self._calls.interrupt()
        elif kind == "input_audio_buffer.committed":
            self._responses.on_buffer_committed()
            await self._send_pending()
        elif kind == "input_audio_buffer.cleared":
            self._responses.on_buffer_cleared()
            await self._send_pending()
        return payload if visible is event else None if visible is None else _encode(visible)

    async def _on_session(self, kind: str, event: Event) -> Event | None:
        session = member(event, "session")
        self._responses.configure(session)
        if kind == "session.created" and not self._began:
            self._began = True
            self._takes_tools = self._takes_tools and session.get("type", "realtime") == "realtime"
            await self._client.send(_encode(event))
            self._tier_tools.open = self._takes_tools
            if self._takes_tools and self._toolbox.enabled:
                await self._tier.choose_first()
                await self._tier_tools.show()
            return None
        return self._tools.on_session_updated(event) if kind == "session.updated" else event

    def _on_error(self, event: Event) -> Event | None:
        error = member(event, "error")
        named = text(error, "event_id")
        code = text(error, "code")
        if named in self._gateway_events:
            item = self._gateway_events.pop(named)
            if item == CLIENT_REQUEST:
                self._responses.on_client_request_refused()
                return {**event, "error": {**error, "event_id": None}}
            log.info("The provider refused an event of the gateway: %s", code[:64])
            if item:
                self._responses.confirm_output(item)
            else:
                self._responses.on_request_refused(active=code == "conversation_already_has_active_response")
            return None
        update = self._tools.on_update_refused(named)
        if update is None:
            # if it was another event, the next `response.create` of the gateway is refused, and sent again later
            self._responses.on_client_request_refused()
            return event
        own, unnamed = update
        if own:
            log.warning("The provider refused what the gateway sets in a speech session: %s", code[:64])
            return None
        return {**event, "error": {**error, "event_id": None}} if unnamed else event

    def _on_response_created(self, event: Event) -> None:
        response = member(event, "response")
        if response.get("conversation_id", "") is not None:  # null: out of the conversation, beside all others
            self._responses.on_response_created()
            self._response_calls.add_response(text(response, "id"))
        self._record.round_answered()

    async def _on_response_done(self, event: Event) -> None:
        response = member(event, "response")
        for item in members(response, "output"):  # for a provider that leaves `response.output_item.done` out
            if text(item, "call_id") not in self._calls:
                self._start_call(text(response, "id"), item)
        usage = member(response, "usage")
        if usage:
            self._record.response_used(usage)
            if (closing := close_over_budget(self._record)) is not None:
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
            if self._tools.is_gateway_tool(text(item, "name")):
                self._hidden.hide(text(item, "id"))
            if kind == "response.output_item.done":
                self._start_call(text(event, "response_id"), item)
        return self._hidden.visible_event(kind, event)

    async def _on_item_event(self, kind: str, event: Event) -> Event | None:
        item = member(event, "item")
        if item.get("type") == "function_call" and self._tools.is_gateway_tool(text(item, "name")):
            self._hidden.hide(text(item, "id"))
        if text(item, "id") in self._hidden:
            self._responses.confirm_output(text(item, "id"))
        if kind in _TRANSCRIPT_EVENTS:
            final = kind.endswith("completed")
            words = text(event, "transcript" if final else "delta")
            self._tier_tools.add_text(UserText(text(event, "item_id"), words, final, continues=not final))
            if final and self._waits_for_transcript:
                await self._tier_tools.wait_for_texts()
        return self._hidden.visible_event(kind, event)

    # Inside

    def _start_call(self, response: str, item: Event) -> None:
        """Run a call that is whole. Arguments of an interrupted one may be cut off: it is not."""
        if item.get("type") != "function_call" or item.get("status") != "completed":
            return
        ident, name = text(item, "call_id"), text(item, "name")
        if not self._tools.is_gateway_tool(name):
            self._response_calls.add_client_call(response)
            return
        call = ModelCall(ident, name, read_arguments(item.get("arguments")))
        if self._calls.begin(call):
            self._response_calls.add_call(response, ident)

    async def _send_pending(self) -> None:
        """Send what waited for the end of a response: tools, results, and the wish for the next response."""
        if not self._began or not (self._responses.idle or (self._waits_for_transcript and not self._responses.active)):
            return
        update = self._tools.gateway_update() if self._takes_tools else None
        if update is not None:
            await self._provider.send(_encode(update))
        if not self._responses.idle:
            return
        outputs, self._outputs = self._outputs, []
        for call, created in outputs:
            item = events.new_id()
            event_id = self._gateway_events.add(item)
            self._hidden.hide(item)
            self._responses.add_output(item)
            named = {**created, "event_id": event_id, "item": {**created["item"], "id": item}}
            await self._provider.send(_encode(named))
            if self._response_calls.finish_call(call):
                self._responses.want_response()
        if self._responses.claim_request():
            await self._provider.send(_encode({"type": "response.create", "event_id": self._gateway_events.add("")}))


SESSION_UPDATE: Final = "fairlead.session.update"
"""Event of a client that is for the gateway: `{tier?, queue_depth?}`."""
_MCP_REFUSED: Final = (
    "tools of type mcp are called by the provider itself, past this gateway's policies and audit log, and are refused "
    "here: the gateway brings the tools of its own servers"
)


class ClientWishes:
    """Wishes of one session's client."""

    def __init__(self, client: MessageSink, shown: TierTools, *, provider_mcp: bool) -> None:
        """`provider_mcp`: whether a client may have the provider itself call MCP servers."""
        self._client = client
        self._shown = shown
        self._provider_mcp = provider_mcp

    async def allowed(self, event: Event, param: str | None) -> bool:
        """Whether all tools within a client's event are allowed; the client is told where they are not. `param`: where
        they belong in this one.
        """
        if self._provider_mcp or not has_provider_mcp(event):
            return True
        refusal = events.error_event(_MCP_REFUSED, "mcp_tools_refused", param, event.get("event_id"))
        await self._client.send(refusal)
        return False

    async def take(self, payload: bytes) -> None:
        """Do what a client wishes of its session; it is told where that cannot be."""
        try:
            await self._shown.update(msgspec.json.decode(payload, type=TierUpdate))
        except (msgspec.MsgspecError, UnknownTier) as error:
            event_id = events.read(payload).get("event_id")
            await self._client.send(events.error_event(str(error), "invalid_value", "tier", event_id))
