"""Session of Gemini Live between a client and the provider, with the tools of the gateway.

The client speaks to the gateway as to the provider, and sees what it would see there: calls of the gateway's tools,
their results, handles that it did not ask for and connections that are replaced are left out of what it gets. Wire
format: Live API, BidiGenerateContent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import Carry, ModelCall
from fairlead_formats.registry import message_format
from fairlead_models.request_record import RequestRecord
from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.gemini import messages
from fairlead_speech.gemini.connections import ToolSwitch
from fairlead_speech.gemini.messages import (
    CLIENT_FRAMES,
    PROVIDER_FRAMES,
    SESSION_UPDATE,
    SETUP,
    ClientNotices,
    Message,
    Resumption,
    ServerContent,
    Transcript,
    has,
    key,
    member,
    members,
)
from fairlead_speech.gemini.models import CallModes
from fairlead_speech.gemini.setup import SessionSetup, function_names, has_provider_mcp
from fairlead_speech.gemini.turns import LiveTurns
from fairlead_speech.messages import FrameReader, TooLargeFrame, UnreadableFrame
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.session import OVER_BUDGET, SessionEnd, day_over
from fairlead_speech.sockets import POLICY_VIOLATION, Closing, SessionSide
from fairlead_speech.tiers import HeardText, SpokenTier, UnknownTier
from fairlead_speech.tool_calls import ToolCallHandler, unspoken
from fairlead_speech.tools import SessionToolbox, ShownTools, TierWish

ENGINE: Final = "gemini-live"
MAX_SETUP: Final = 1 << 20
"""Bytes of a client's `setup` or `contextUpdate`, which are kept as long as the session."""
MCP_REFUSED: Final = "mcpServers are called by the provider past this gateway's policies: they are refused here"
SAID: Final = "the tool succeeded and returned nothing"
"""Output of an empty result: models repeat calls that had none."""
_CARRY: Final = Carry(images=False, documents=False)
_encode: Final = msgspec.json.encode


class LiveSession:
    """One session. `aclose` it."""

    client_frames: FrameReader = CLIENT_FRAMES
    provider_frames: FrameReader = PROVIDER_FRAMES

    def __init__(
        self,
        client: SessionSide,
        setup: SessionSetup,
        modes: CallModes,
        switch: ToolSwitch,
        notices: ClientNotices,
        turns: LiveTurns,
        toolbox: SessionToolbox,
        tier: SpokenTier,
        record: RequestRecord,
        metrics: SpeechMetrics,
        clock: Callable[[], float],
        shown_handle: Callable[[str], str],
        *,
        provider_mcp: bool,
        elsewhere: Callable[[str | None], bool] | None = None,
    ) -> None:
        """`shown_handle`: a provider's handle as the client gets it. `provider_mcp`: whether a client may have the
        provider itself call MCP servers. `elsewhere`: whether turns of a tier are answered by somebody
        else, who finds the tier of each turn then; None: none are.
        """
        self._client = client
        self._line = switch.line
        self._notices = notices
        self._setup = setup
        self._modes = modes
        self._switch = switch
        self._turns = turns
        self._record = record
        self._clock = clock
        self._shown_handle = shown_handle
        self._provider_mcp = provider_mcp
        self._calls = ToolCallHandler(self, toolbox.run, toolbox.interruptible, ENGINE, metrics)
        self._shown = ShownTools(self, ENGINE, toolbox, tier, metrics, lambda: self._setup.client_names)
        self._shown.open = True
        self._elsewhere = elsewhere
        self._spoken_turn = 0
        self._hears = False
        self._free = asyncio.Event()
        self._free.set()
        self._held: set[str] = set()
        """Ids of calls whose results wait until nobody else speaks."""
        self.end = SessionEnd()

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        return self._turns.owes or bool(self._calls.running)

    # The interface of every engine

    async def set_tools(self, offer: ToolOffer) -> None:
        """Show these tools: at once where the model can be told of them, else from the end of a turn on."""
        if self._elsewhere is not None and self._elsewhere(self.tier):
            return  # the model answers no turn with them, and older ones take another connection for other tools
        self._setup.show(offer)
        await self._switch.tools_changed()

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Give the model a result, and the client what cannot be spoken of it."""
        self._held.add(call.id)
        await self._free.wait()
        if call.id not in self._held:
            return  # the provider took the call back meanwhile
        self._held.discard(call.id)
        parts = unspoken(result)
        if parts:
            await self._notices.unspoken(call, parts)
        self._turns.answered([call.id])
        for written in message_format(ENGINE).write_results([call], [result], _CARRY).messages:
            await self._line.send(_encode(_scheduled(written, self._modes.of(call.wire_name).scheduling)))

    # For who answers turns in the provider's place

    @property
    def tier(self) -> str | None:
        """The tier now; None: the principal's default one."""
        return self._shown.tier

    @property
    def answering(self) -> bool:
        """Whether the model says something, or is asked to."""
        return self._turns.answering

    async def heard(self, turn: str, words: str, *, final: bool, grows: bool) -> None:
        """Choose the tier by what the user says, and show its tools."""
        await self._shown.heard(HeardText(turn, words, final, grows))

    def asks(self) -> None:
        """The model is asked for an answer."""
        self._turns.asked()

    def hears(self) -> None:
        """The model hears a turn from its mark on, and is asked for an answer at the end."""
        self._turns.begins()

    def gives_up(self) -> None:
        """The model is not waited for any longer."""
        self._turns.over()

    def hold(self, *, elsewhere: bool) -> None:
        """Keep results, which the model would speak of, while a turn is answered `elsewhere`; then send them."""
        if elsewhere:
            self._free.clear()
        else:
            self._free.set()

    async def retire(self, seconds: float) -> None:
        """Tell the client so in the provider's own way: it may go on with the session elsewhere by its handle."""
        await self._client.send(_encode({"goAway": {"timeLeft": f"{int(seconds)}s"}}))

    async def aclose(self) -> None:
        """Cancel the calls that run, and drop what is not looked through."""
        await self._shown.aclose()
        await self._calls.aclose()
        await self._switch.aclose()

    # Frames of the client

    async def from_client(self, frame: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        message = messages.read(frame)
        if has(message, "contextUpdate"):
            return await self._client_update(message, len(frame))
        if SETUP in message:
            raise UnreadableFrame("a setup is the first message of a connection alone")
        if SESSION_UPDATE in message:
            await self._wish(message)
            return None
        if has(message, "toolResponse"):
            answers = members(member(message, "toolResponse"), "functionResponses")
            self._turns.answered([messages.text(answer, "id") for answer in answers])
            return frame
        said = messages.written_text(message)
        if said:
            self._spoken_turn += 1
            await self._shown.heard(HeardText(str(self._spoken_turn), said, final=True, grows=False))
        content, live = member(message, "clientContent"), member(message, "realtimeInput")
        if has(live, "activityStart"):
            self._turns.begins()
        elif content.get(key(content, "turnComplete")) or live.get("text") or has(live, "activityEnd"):
            self._turns.asked()
        return frame

    def refusal(self, error: UnreadableFrame) -> bytes | None:
        """None: Google's servers close as well, with 1007."""
        return None

    async def _client_update(self, message: Message, size: int) -> bytes | None:
        if size > MAX_SETUP:
            raise TooLargeFrame(f"a contextUpdate may have {MAX_SETUP >> 20} MiB")
        tools = members(member(member(message, "contextUpdate"), "tools"), "tools")
        if not self._provider_mcp and has_provider_mcp(tools):
            await self._client.close(Closing(POLICY_VIOLATION, MCP_REFUSED))
            return None
        if has(member(message, "contextUpdate"), "tools"):
            # a tool of the client's may have the name of one of ours: the offer is made anew beside them
            offer = await self._shown.offer_beside(function_names(tools))
            if offer is not None:
                self._setup.show(offer)
        return _encode(self._setup.client_update(message))

    async def _wish(self, message: Message) -> None:
        self._notices.wished = True
        said = member(message, SESSION_UPDATE)
        wish = {name: said[key(said, name)] for name in ("tier", "queueDepth") if has(said, name)}
        try:
            if "queueDepth" in wish:
                wish["queue_depth"] = wish.pop("queueDepth")
            await self._shown.wish(msgspec.convert(wish, TierWish))
        except (msgspec.MsgspecError, UnknownTier) as error:
            await self._notices.refused(str(error))

    # Frames of the provider

    async def from_provider(self, frame: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
        message = messages.read_server(frame)
        hidden: list[str] = []
        seen: Message | None = None
        over = False
        if message.server_content is not None:
            over = self._content(message.server_content)
        if messages.is_there(message.tool_call):
            seen = self._called(frame)
        if message.tool_call_cancellation is not None:
            seen = self._cancelled(messages.read(frame) if seen is None else seen, message.tool_call_cancellation.ids)
        if message.session_resumption_update is not None:
            self._handed(message.session_resumption_update)
            if not self._setup.client_resumes:
                hidden.append("sessionResumptionUpdate")
            elif (handle := message.session_resumption_update.new_handle or "") != self._shown_handle(handle):
                seen = _with_handle(messages.read(frame) if seen is None else seen, self._shown_handle(handle))
        if message.go_away is not None and not self._setup.client_resumes:
            notice = _encode({"goAway": {"timeLeft": message.go_away.time_left or "0s"}})
            self._switch.going_away(message.go_away, notice)
            hidden.append("goAway")
        if message.usage_metadata is not None:
            self._record.response_used(message.usage_metadata)
        if over:
            self._turns.over()
            self._switch.turn_over()
        self._look_at_budget()
        if not hidden and seen is None:
            return frame
        left = messages.without(messages.read(frame) if seen is None else seen, *hidden)
        return None if left is None else _encode(left)

    def _look_at_budget(self) -> None:
        """End the session behind a turn that has spent the day, and behind the message at hand: it goes out before."""
        closing = None if self._turns.owes else day_over(self._record)
        if closing is not None:
            self.end.ask(OVER_BUDGET, closing)

    def _content(self, content: ServerContent) -> bool:
        """Take what the model says; whether its turn is over."""
        if content.input_transcription is not None:
            self._transcribed(content.input_transcription)
        if content.says:
            self._model_began()
        return content.over

    def _model_began(self) -> None:
        if self._turns.says():
            self._record.round_answered()
        if self._hears:
            self._hears = False
            self._shown.hear(HeardText(str(self._spoken_turn), "", final=True, grows=True))

    def _transcribed(self, piece: Transcript) -> None:
        self._turns.heard(self._clock())
        if self._elsewhere is not None:
            return
        self._spoken_turn += not self._hears
        self._hears = not piece.finished
        final = bool(piece.finished)
        self._shown.hear(HeardText(str(self._spoken_turn), piece.text or "", final=final, grows=True))

    def _called(self, frame: bytes) -> Message:
        """Run calls of the gateway's tools; the message without them."""
        self._model_began()
        message = messages.read(frame)
        calls = message_format(ENGINE).parse_calls(message)
        self._turns.called([call.id for call in calls])
        own: set[str] = set()
        for call in calls:
            if self._setup.is_own(call.wire_name):
                own.add(call.id)
                self._calls.begin(call)
        if not own:
            return message
        name, found = key(message, "toolCall"), member(message, "toolCall")
        listed = members(found, "functionCalls")
        kept = [each for each in listed if not self._setup.is_own(messages.text(each, "name"))]
        if not kept:
            return messages.without(message, "toolCall") or {}
        return {**message, name: {**found, key(found, "functionCalls"): kept}}

    def _cancelled(self, message: Message, ids: Collection[str]) -> Message:
        """Take calls back; the message without those that the client knows nothing of."""
        self._turns.answered(ids)
        self._calls.cancel(ids)
        self._held.difference_update(ids)
        kept = [ident for ident in ids if ident not in self._calls]
        if len(kept) == len(ids):
            return message
        if not kept:
            return messages.without(message, "toolCallCancellation") or {}
        return {**message, key(message, "toolCallCancellation"): {"ids": kept}}

    def _handed(self, update: Resumption) -> None:
        good = bool(update.resumable)
        self._turns.handed(update.new_handle or "", good=good)
        if self._turns.fresh:
            self._line.handed()
        self._switch.look()


def _with_handle(message: Message, handle: str) -> Message:
    name = key(message, "sessionResumptionUpdate")
    return {**message, name: {**member(message, "sessionResumptionUpdate"), "newHandle": handle}}


def _scheduled(written: Message, scheduling: str) -> Message:
    """A message with results as the model gets it."""
    for response in members(member(written, "toolResponse"), "functionResponses"):
        if response.get("response") == {"output": ""}:
            response["response"] = {"output": SAID}
        if scheduling:
            response["scheduling"] = scheduling
    return written
