"""Session of OpenAI Realtime between a client and the provider, with the tools of the gateway.

The client speaks to the gateway as to the provider, and sees what it would see there: tools of the gateway, their calls
and their results are left out of what it gets. Wire format: OpenAI Realtime API, general availability.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import Carry, ModelCall, read_arguments
from fairlead_formats.registry import message_format
from fairlead_models.request_record import RequestRecord
from fairlead_offers.offer.offers import ToolOffer
from fairlead_offers.problems import RATE_LIMITED
from fairlead_speech import realtime_events
from fairlead_speech.frames import FrameReader, UnreadableFrame
from fairlead_speech.hearing import HeardText
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.realtime.client_wishes import SESSION_UPDATE, ClientWishes
from fairlead_speech.realtime.frames import CLIENT_FRAMES, PROVIDER_FRAMES
from fairlead_speech.realtime.hidden_items import HiddenItems
from fairlead_speech.realtime.own_events import CLIENT_ASKS, OwnEvents
from fairlead_speech.realtime.responses import ResponseTurns
from fairlead_speech.realtime.rounds import CallRounds
from fairlead_speech.realtime.tools import SessionTools
from fairlead_speech.realtime_events import Event, member, members, text
from fairlead_speech.results import unspoken
from fairlead_speech.session import OVER_BUDGET, FrameSink, SessionEnd, day_over
from fairlead_speech.shown_tools import ShownTools
from fairlead_speech.tiers import SpokenTier
from fairlead_speech.tool_calls import ToolCallHandler
from fairlead_speech.toolbox import SessionToolbox

ENGINE: Final = "openai-realtime"
TOOL_RESULT: Final = "fairlead.tool_result"
"""Event for a client: parts of a result that cannot be spoken."""
_CARRY: Final = Carry(images=False)
_WATCHED: Final = frozenset({f"{realtime_events.TRANSCRIPT}delta", f"{realtime_events.TRANSCRIPT}completed"})
_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class RealtimeSession:
    """One session. `aclose` it."""

    client_frames: FrameReader = CLIENT_FRAMES
    provider_frames: FrameReader = PROVIDER_FRAMES

    def __init__(
        self,
        client: FrameSink,
        provider: FrameSink,
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
        self._hears_first = hears_first
        self._tools = SessionTools()
        self._turns = ResponseTurns()
        self._hidden = HiddenItems()
        self._rounds = CallRounds()
        self._shown = ShownTools(self, engine, toolbox, tier, metrics, lambda: self._tools.client_names)
        self._wishes = ClientWishes(client, self._shown, provider_mcp=provider_mcp)
        self._calls = ToolCallHandler(self, toolbox.run, toolbox.interruptible, engine, metrics)
        self._outputs: list[tuple[str, Event]] = []
        """Results that wait for the end of a response, with the ids of their calls."""
        self._own_events = OwnEvents()
        """Those of the gateway, whose refusals the client does not hear of."""
        self._began = False
        self._takes_tools = True
        self.end = end or SessionEnd()

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        return self._turns.owes or bool(self._calls.running)

    # The interface of every engine

    async def set_tools(self, offer: ToolOffer) -> None:
        """Show these tools: at once between two responses, else after the one in progress."""
        self._tools.show(offer)
        await self._settle()

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Give the model a result, and the client what cannot be spoken of it."""
        parts = unspoken(result)
        if parts:
            event = {
                "type": TOOL_RESULT,
                "event_id": realtime_events.own_id(),
                "call_id": call.id,
                "name": call.wire_name,
            }
            await self._client.send(_encode({**event, "content": parts}))
        written = message_format(ENGINE).write_results([call], [result], _CARRY)
        created = (each for each in written.messages if each.get("type") == "conversation.item.create")
        self._outputs += [(call.id, each) for each in created]
        await self._settle()

    # For who answers turns in the provider's place

    @property
    def tier(self) -> str | None:
        """The tier now; None: the principal's default one."""
        return self._shown.tier

    @property
    def speaking(self) -> bool:
        """Whether the user speaks."""
        return self._turns.speaking

    @property
    def answers_speech(self) -> bool:
        """Whether the provider answers speech by itself."""
        return self._turns.answers_speech

    async def all_heard(self) -> None:
        """Wait until the tier is chosen by all that was heard."""
        await self._shown.all_heard()

    async def show(self) -> None:
        """Show the tools of the tier, as they are now."""
        await self._shown.show()

    async def hold(self, *, elsewhere: bool) -> None:
        """Ask for no response while a turn is answered `elsewhere`; then go on."""
        self._turns.elsewhere = elsewhere
        await self._settle()

    async def ask(self) -> None:
        """Have the provider answer the turn."""
        self._turns.want()
        await self.hold(elsewhere=False)

    async def client_answered(self) -> None:
        """The client has answered all calls of its own: the provider goes on once ours are answered, too."""
        self._rounds.client_asks()
        if not self._calls.running:
            await self.ask()

    async def change(self, session: Event) -> str:
        """Change the provider's session; the client does not hear of it. The id of the event."""
        event = self._tools.own_change(session)
        await self._provider.send(_encode(event))
        return text(event, "event_id")

    async def remember(self, text: str) -> str:
        """Have the provider know what was said in its place, as an item that the client does not see; its id."""
        item = realtime_events.own_id()
        self._hidden.hide(item)
        content = [{"type": "output_text", "text": text}]
        shown = {"id": item, "type": "message", "role": "assistant", "status": "completed", "content": content}
        event = {"type": "conversation.item.create", "event_id": self._own_events.add(item), "item": shown}
        await self._provider.send(_encode(event))
        return item

    async def forget(self, item: str) -> None:
        """Take back what the provider was told."""
        event = {"type": "conversation.item.delete", "event_id": self._own_events.add(item), "item_id": item}
        await self._provider.send(_encode(event))

    async def retire(self, seconds: float) -> None:
        """Do nothing: the format has no word for it."""

    async def aclose(self) -> None:
        """Cancel the calls that run, and drop what is not looked through."""
        await self._shown.aclose()
        await self._calls.aclose()

    # Frames of the client

    async def from_client(self, frame: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        kind = realtime_events.kind_of(frame)
        if kind == realtime_events.APPEND:  # a large one: it is not decoded again
            return frame
        event = realtime_events.read(frame)
        if kind == "session.update":
            return await self._client_update(event)
        if kind == "response.create":
            return await self._client_asks(frame, event)
        if kind == SESSION_UPDATE:
            await self._wishes.take(frame)
            return None
        if not await self._wishes.allowed(event, None):
            return None
        if kind == "conversation.item.create":
            await self._client_says(event)
        return frame

    def refusal(self, error: UnreadableFrame) -> bytes | None:
        """An event `error`, as OpenAI's server answers what it cannot read: the session goes on."""
        return realtime_events.error_event(str(error), "invalid_event", None, None)

    async def _client_update(self, event: Event) -> bytes | None:
        session = member(event, "session")
        if not await self._wishes.allowed(event, "session.tools"):
            return None
        if session.get("type") == "transcription":
            self._takes_tools = self._shown.open = False
        if "tools" in session and self._takes_tools and self._began:
            # a tool of the client's may have the name of one of ours: the offer is made anew beside them
            names = frozenset(text(tool, "name") for tool in members(session, "tools"))
            offer = await self._shown.offer_beside(names)
            if offer is not None:
                self._tools.show(offer)
        # no wait from here to its sending: updates are answered in the order in which they are sent
        return _encode(self._tools.client_update(event))

    async def _client_asks(self, frame: bytes, event: Event) -> bytes | None:
        response = member(event, "response")
        if not await self._wishes.allowed(event, "response.tools"):
            return None
        if response.get("conversation") != "none":
            self._rounds.client_asks()
            self._turns.client_asks()
        if text(event, "event_id"):
            return frame
        # with an id, its refusal can be told from others
        return _encode({**event, "event_id": self._own_events.add(CLIENT_ASKS)})

    async def _client_says(self, event: Event) -> None:
        """Hear what the user writes."""
        item = member(event, "item")
        if words := realtime_events.written_text(item):
            turn = text(item, "id") or realtime_events.own_id()
            await self._shown.heard(HeardText(turn, words, final=True, grows=False))

    # Frames of the provider

    async def from_provider(self, frame: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
        kind = realtime_events.kind_of(frame)
        event = realtime_events.read(frame)
        seen: Event | None = event
        if kind in ("session.created", "session.updated"):
            seen = await self._session(kind, event)
        elif kind == "error":
            seen = self._error(event)
            await self._settle()
        elif kind == "response.created":
            self._response_began(event)
        elif kind == "response.done":
            seen = self._hidden.response(event)
            await self._client.send(frame if seen is event else _encode(seen))
            await self._response_done(event)
            return None
        elif kind.startswith("response."):
            seen = self._of_response(kind, event)
        elif kind.startswith("conversation.item."):
            seen = await self._of_item(kind, event)
        elif kind == "input_audio_buffer.speech_started":
            self._turns.speech_began()
            self._calls.interrupt()
        elif kind == "input_audio_buffer.committed":
            self._turns.speech_taken()
            await self._settle()
        elif kind == "input_audio_buffer.cleared":
            self._turns.speech_dropped()
            await self._settle()
        return frame if seen is event else None if seen is None else _encode(seen)

    async def _session(self, kind: str, event: Event) -> Event | None:
        session = member(event, "session")
        self._turns.configured(session)
        if kind == "session.created" and not self._began:
            self._began = True
            self._takes_tools = self._takes_tools and session.get("type", "realtime") == "realtime"
            await self._client.send(_encode(event))
            self._shown.open = self._takes_tools
            if self._takes_tools and self._toolbox.wanted:
                await self._tier.begin()
                await self._shown.show()
            return None
        return self._tools.updated(event) if kind == "session.updated" else event

    def _error(self, event: Event) -> Event | None:
        error = member(event, "error")
        named = text(error, "event_id")
        code = text(error, "code")
        if named in self._own_events:
            item = self._own_events.refused(named)
            if item == CLIENT_ASKS:
                self._turns.client_refused()
                return {**event, "error": {**error, "event_id": None}}
            log.info("The provider refused an event of the gateway: %s", code[:64])
            if item:
                self._turns.taken(item)
            else:
                self._turns.refused(active=code == "conversation_already_has_active_response")
            return None
        update = self._tools.refused(named)
        if update is None:
            self._turns.client_refused()  # if it was not that, the next response asked for is refused, and tried again
            return event
        own, unnamed = update
        if own:
            log.warning("The provider refused what the gateway sets in a speech session: %s", code[:64])
            return None
        return {**event, "error": {**error, "event_id": None}} if unnamed else event

    def _response_began(self, event: Event) -> None:
        response = member(event, "response")
        if response.get("conversation_id", "") is not None:  # null: out of the conversation, beside all others
            self._turns.began()
            self._rounds.began(text(response, "id"))
        self._record.round_answered()

    async def _response_done(self, event: Event) -> None:
        response = member(event, "response")
        for item in members(response, "output"):  # for a provider that leaves `response.output_item.done` out
            if text(item, "call_id") not in self._calls:
                self._called(text(response, "id"), item)
        usage = member(response, "usage")
        if usage:
            self._record.response_used(usage)
            if (closing := day_over(self._record)) is not None:
                await self._client.send(realtime_events.error_event(closing.reason, RATE_LIMITED, None, None))
                self.end.ask(OVER_BUDGET, closing)
                return
        if response.get("conversation_id", "") is not None:
            self._turns.done()
            self._rounds.done(text(response, "id"), completed=response.get("status") == "completed")
        await self._settle()

    def _of_response(self, kind: str, event: Event) -> Event | None:
        item = member(event, "item")
        if item.get("type") == "function_call":
            if self._tools.is_own(text(item, "name")):
                self._hidden.hide(text(item, "id"))
            if kind == "response.output_item.done":
                self._called(text(event, "response_id"), item)
        return self._hidden.shown(kind, event)

    async def _of_item(self, kind: str, event: Event) -> Event | None:
        item = member(event, "item")
        if item.get("type") == "function_call" and self._tools.is_own(text(item, "name")):
            self._hidden.hide(text(item, "id"))
        if text(item, "id") in self._hidden:
            self._turns.taken(text(item, "id"))
        if kind in _WATCHED:
            final = kind.endswith("completed")
            said = text(event, "transcript" if final else "delta")
            self._shown.hear(HeardText(text(event, "item_id"), said, final, grows=not final))
            if final and self._hears_first:
                await self._shown.all_heard()
        return self._hidden.shown(kind, event)

    # Inside

    def _called(self, response: str, item: Event) -> None:
        """Run a call that is whole. Arguments of an interrupted one may be cut off: it is not."""
        if item.get("type") != "function_call" or item.get("status") != "completed":
            return
        ident, name = text(item, "call_id"), text(item, "name")
        if not self._tools.is_own(name):
            self._rounds.client_calls(response)
            return
        call = ModelCall(ident, name, read_arguments(item.get("arguments")))
        if self._calls.begin(call):
            self._rounds.calls(response, ident)

    async def _settle(self) -> None:
        """Send what waited for the end of a response: tools, results, and the wish for the next response."""
        if not self._began or not (self._turns.free or (self._hears_first and not self._turns.active)):
            return
        update = self._tools.own_update() if self._takes_tools else None
        if update is not None:
            await self._provider.send(_encode(update))
        if not self._turns.free:
            return
        outputs, self._outputs = self._outputs, []
        for call, created in outputs:
            item = realtime_events.own_id()
            event_id = self._own_events.add(item)
            self._hidden.hide(item)
            self._turns.sent(item)
            named = {**created, "event_id": event_id, "item": {**created["item"], "id": item}}
            await self._provider.send(_encode(named))
            if self._rounds.answered(call):
                self._turns.want()
        if self._turns.ask():
            await self._provider.send(_encode({"type": "response.create", "event_id": self._own_events.add("")}))
