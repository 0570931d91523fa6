"""Gemini Live session between a client and the provider, to which the gateway adds its tools.

Client and gateway exchange the messages of the provider's API. Hidden from the client are calls of the gateway's tools
and their results, resumption handles that the client did not request, and replacements of the connection to the
provider. Wire format: Live API, BidiGenerateContent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import Carry, ModelCall
from fairlead_formats.registry import message_format
from fairlead_mcp.misread_values import explain_misreading
from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.gemini import messages
from fairlead_speech.gemini.connections import LiveParts, ToolSwitch
from fairlead_speech.gemini.messages import (
    CLIENT_MESSAGES,
    PROVIDER_MESSAGES,
    SESSION_UPDATE,
    SETUP,
    Message,
    ServerContent,
    SessionResumptionUpdate,
    Transcription,
    has_member,
    key,
    member,
    members,
)
from fairlead_speech.gemini.setup import function_names, has_provider_mcp
from fairlead_speech.messages import MessageReader, TooLargeMessage, UnreadableMessage
from fairlead_speech.session import OVER_BUDGET, SessionEnd, close_over_budget
from fairlead_speech.sockets import POLICY_VIOLATION, Closing, SessionSide
from fairlead_speech.tiers import UnknownTier, UserText
from fairlead_speech.tools import SpeechContext, TierTools, TierUpdate, ToolCallHandler, media_parts

ENGINE: Final = "gemini-live"
MAX_SETUP_BYTES: Final = 1 << 20
"""Maximum number of bytes of a client's `setup` or `contextUpdate`, both of which are stored for the whole session."""
MCP_REFUSED: Final = "mcpServers are refused: the provider would call them itself, bypassing this gateway's policies"
EMPTY_OUTPUT: Final = "the tool succeeded and returned nothing"
"""Output that replaces an empty result, because models repeat a call that has no output."""
_CARRY: Final = Carry(images=False, documents=False)
_encode: Final = msgspec.json.encode


class LiveSession:
    """Gemini Live session of one client with one provider. Its owner calls `aclose` at the end."""

    client_messages: MessageReader = CLIENT_MESSAGES
    provider_messages: MessageReader = PROVIDER_MESSAGES

    def __init__(
        self,
        client: SessionSide,
        context: SpeechContext,
        parts: LiveParts,
        switch: ToolSwitch,
        seal_handle: Callable[[str], str],
        *,
        is_slow: Callable[[str | None], bool] | None = None,
    ) -> None:
        """`seal_handle`: converts a handle of the provider to the handle that the client gets. `is_slow`: whether a
        cascaded engine answers the turns of a tier; the routed session then chooses the tier of each turn. None: the
        provider answers all turns.
        """
        toolbox = context.toolbox
        self._client = client
        self._context = context
        self._connection = switch.connection
        self._switch = switch
        self._notices = parts.notices
        self._setup = parts.setup
        self._modes = parts.modes
        self._turns = parts.turns
        self._clock = parts.clock
        self._seal_handle = seal_handle
        self._calls = ToolCallHandler(self, toolbox.run, toolbox.interruptible, ENGINE, context.metrics)
        self._tier_tools = TierTools(self, context, lambda: self._setup.client_names)
        self._tier_tools.open = True
        self._is_slow = is_slow
        self._turn_number = 0
        self._is_transcribing = False
        """Whether pieces of the transcript of the user's turn are still arriving."""
        self._results_allowed = asyncio.Event()
        """Set while results of tools may be sent to the model."""
        self._results_allowed.set()
        self._held_results: set[str] = set()
        """Ids of calls whose results are held back until the engine's answer has ended."""
        self.end = SessionEnd()

    @property
    def responding(self) -> bool:
        """Whether the model is responding, or will respond after a tool call that is running."""
        return self._turns.busy or bool(self._calls.running)

    # SpeechSession

    async def set_tools(self, offer: ToolOffer) -> None:
        """Set the tools of the model: at once if the model accepts `contextUpdate`, else between two turns."""
        if self._is_slow is not None and self._is_slow(self.tier):
            return  # the engine answers in this tier, and older models would need a new connection for the tier's tools
        self._setup.set_offer(offer)
        await self._switch.update_tools()

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Send the result of a call to the model, and the result's images, audio and files to the client."""
        self._held_results.add(call.id)
        await self._results_allowed.wait()
        if call.id not in self._held_results:
            return  # the provider has cancelled the call
        self._held_results.discard(call.id)
        parts = media_parts(result)
        if parts:
            await self._notices.send_media(call, parts)
        self._turns.finish_calls([call.id])
        for message in message_format(ENGINE).write_results([call], [result], _CARRY).messages:
            await self._connection.send(_encode(_with_scheduling(message, self._modes.mode(call.wire_name).scheduling)))

    # For routed sessions

    @property
    def tier(self) -> str | None:
        """Name of the session's current tier; None stands for the principal's default tier."""
        return self._tier_tools.tier

    @property
    def answering(self) -> bool:
        """Whether the model is answering or was requested to answer."""
        return self._turns.answering

    async def choose_tier(self, turn: str, words: str, *, final: bool, continues: bool) -> None:
        """Choose the tier by the user's words, and give the model the tools of the tier."""
        await self._tier_tools.choose_tier(UserText(turn, words, final, continues))

    def request_answer(self) -> None:
        """Record that the model was requested to answer."""
        self._turns.request_answer()

    def begin_activity(self) -> None:
        """Record the beginning of a turn whose beginning and end are marked. The model answers at its end."""
        self._turns.begin_activity()

    def abandon_answer(self) -> None:
        """Record that the gateway has stopped waiting for the end of the model's answer."""
        self._turns.end_turn()

    def hold_results(self, *, engine_answers: bool) -> None:
        """Hold back results of tools while an engine answers a turn, because the model would speak about them.
        `engine_answers=False`: send the held results.
        """
        if engine_answers:
            self._results_allowed.clear()
        else:
            self._results_allowed.set()

    async def announce_drain(self, seconds: float) -> None:
        """Send `goAway` to the client. With the resumption handle, the client can resume the session at another
        gateway.
        """
        await self._client.send(_encode({"goAway": {"timeLeft": f"{int(seconds)}s"}}))

    async def aclose(self) -> None:
        """Cancel the running tool calls, the pending choice of a tier, and the pending change of tools."""
        await self._tier_tools.aclose()
        await self._calls.aclose()
        await self._switch.aclose()

    # Messages of the client

    async def from_client(self, payload: bytes) -> bytes | None:
        """Translate a message of the client for the provider. Returns None if nothing is forwarded."""
        message = messages.read(payload)
        if has_member(message, "contextUpdate"):
            return await self._client_context_update(message, len(payload))
        if SETUP in message:
            raise UnreadableMessage("a setup can only be the first message of a connection")
        if SESSION_UPDATE in message:
            await self._gateway_session_update(message)
            return None
        if has_member(message, "toolResponse"):
            answers = members(member(message, "toolResponse"), "functionResponses")
            self._turns.finish_calls([messages.text(answer, "id") for answer in answers])
            return payload
        user_text = messages.written_text(message)
        if user_text:
            self._turn_number += 1
            await self._tier_tools.choose_tier(UserText(str(self._turn_number), user_text, final=True, continues=False))
        content, realtime_input = member(message, "clientContent"), member(message, "realtimeInput")
        if has_member(realtime_input, "activityStart"):
            self._turns.begin_activity()
        elif (
            content.get(key(content, "turnComplete"))
            or realtime_input.get("text")
            or has_member(realtime_input, "activityEnd")
        ):
            self._turns.request_answer()
        return payload

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """Answer to a client's message that cannot be read. None: the session ends with close code 1007, as with
        Google's servers.
        """
        return None

    async def _client_context_update(self, message: Message, size: int) -> bytes | None:
        if size > MAX_SETUP_BYTES:
            raise TooLargeMessage(f"a contextUpdate may have at most {MAX_SETUP_BYTES >> 20} MiB")
        tools = members(member(member(message, "contextUpdate"), "tools"), "tools")
        if not self._context.provider_mcp and has_provider_mcp(tools):
            await self._client.close(Closing(POLICY_VIOLATION, MCP_REFUSED))
            return None
        if has_member(member(message, "contextUpdate"), "tools"):
            # a tool of the client may have the name of a tool in the offer: build the offer again without that name
            offer = await self._tier_tools.build_offer(function_names(tools))
            if offer is not None:
                self._setup.set_offer(offer)
        return _encode(self._setup.client_update(message))

    async def _gateway_session_update(self, message: Message) -> None:
        self._notices.updates_session = True
        content = member(message, SESSION_UPDATE)
        update = {name: content[key(content, name)] for name in ("tier", "queueDepth") if has_member(content, name)}
        try:
            if "queueDepth" in update:
                update["queue_depth"] = update.pop("queueDepth")
            await self._tier_tools.update(msgspec.convert(update, TierUpdate))
        except UnknownTier as error:
            await self._notices.send_error(str(error))
        except msgspec.MsgspecError as error:
            await self._notices.send_error(explain_misreading(error, SESSION_UPDATE))

    # Messages of the provider

    async def from_provider(self, payload: bytes) -> bytes | None:
        """Translate a message of the provider for the client. Returns None if nothing is forwarded."""
        message = messages.read_server(payload)
        hidden_members: list[str] = []
        new_message: Message | None = None
        turn_over = False
        if message.server_content is not None:
            turn_over = self._on_server_content(message.server_content)
        if messages.is_present(message.tool_call):
            new_message = self._on_tool_call(payload)
        if message.tool_call_cancellation is not None:
            new_message = self._on_cancellation(
                messages.read(payload) if new_message is None else new_message, message.tool_call_cancellation.ids
            )
        if message.session_resumption_update is not None:
            self._on_resumption_update(message.session_resumption_update)
            if not self._setup.client_resumes:
                hidden_members.append("sessionResumptionUpdate")
            elif (handle := message.session_resumption_update.new_handle or "") != self._seal_handle(handle):
                new_message = _with_handle(
                    messages.read(payload) if new_message is None else new_message, self._seal_handle(handle)
                )
        if message.go_away is not None and not self._setup.client_resumes:
            notice = _encode({"goAway": {"timeLeft": message.go_away.time_left or "0s"}})
            self._switch.on_go_away(message.go_away, notice)
            hidden_members.append("goAway")
        if message.usage_metadata is not None:
            self._context.record.record_response(message.usage_metadata)
        if turn_over:
            self._turns.end_turn()
            self._switch.on_turn_complete()
        self._end_over_budget()
        if not hidden_members and new_message is None:
            return payload
        remaining = messages.without_members(
            messages.read(payload) if new_message is None else new_message, *hidden_members
        )
        return None if remaining is None else _encode(remaining)

    def _end_over_budget(self) -> None:
        """End the session because the agent's daily tokens are used up. The current message, which ends a turn, is sent
        before.
        """
        closing = None if self._turns.busy else close_over_budget(self._context.record)
        if closing is not None:
            self.end.request(OVER_BUDGET, closing)

    def _on_server_content(self, content: ServerContent) -> bool:
        """Handle a `serverContent`. Returns True if it ends the model's turn."""
        if content.input_transcription is not None:
            self._on_transcription(content.input_transcription)
        if content.has_output:
            self._on_output()
        return content.turn_over

    def _on_output(self) -> None:
        if self._turns.on_output():
            self._context.record.begin_answer()
        if self._is_transcribing:
            self._is_transcribing = False
            self._tier_tools.add_text(UserText(str(self._turn_number), "", final=True, continues=True))

    def _on_transcription(self, piece: Transcription) -> None:
        self._turns.on_transcription(self._clock())
        if self._is_slow is not None:
            return
        self._turn_number += not self._is_transcribing
        self._is_transcribing = not piece.finished
        final = bool(piece.finished)
        self._tier_tools.add_text(UserText(str(self._turn_number), piece.text or "", final=final, continues=True))

    def _on_tool_call(self, payload: bytes) -> Message:
        """Start the calls of the gateway's tools. Returns the message with only the client's calls."""
        self._on_output()
        message = messages.read(payload)
        calls = message_format(ENGINE).parse_calls(message)
        self._turns.add_calls([call.id for call in calls])
        gateway_calls: set[str] = set()
        for call in calls:
            if self._setup.answers_call(call.wire_name):
                gateway_calls.add(call.id)
                self._calls.begin(call)
        if not gateway_calls:
            return message
        name, tool_call = key(message, "toolCall"), member(message, "toolCall")
        function_calls = members(tool_call, "functionCalls")
        client_calls = [call for call in function_calls if not self._setup.answers_call(messages.text(call, "name"))]
        if not client_calls:
            return messages.without_members(message, "toolCall") or {}
        return {**message, name: {**tool_call, key(tool_call, "functionCalls"): client_calls}}

    def _on_cancellation(self, message: Message, ids: Collection[str]) -> Message:
        """Cancel calls. Returns the message with only the ids of the client's calls."""
        self._turns.finish_calls(ids)
        self._calls.cancel(ids)
        self._held_results.difference_update(ids)
        client_ids = [ident for ident in ids if ident not in self._calls]
        if len(client_ids) == len(ids):
            return message
        if not client_ids:
            return messages.without_members(message, "toolCallCancellation") or {}
        return {**message, key(message, "toolCallCancellation"): {"ids": client_ids}}

    def _on_resumption_update(self, update: SessionResumptionUpdate) -> None:
        self._turns.on_handle(update.new_handle or "", resumable=bool(update.resumable))
        if self._turns.handle_current:
            self._connection.on_handle()
        self._switch.try_replace()


def _with_handle(message: Message, handle: str) -> Message:
    name = key(message, "sessionResumptionUpdate")
    return {**message, name: {**member(message, "sessionResumptionUpdate"), "newHandle": handle}}


def _with_scheduling(message: Message, scheduling: str) -> Message:
    """Prepare a message with results for the model: set `scheduling`, and replace empty outputs."""
    for response in members(member(message, "toolResponse"), "functionResponses"):
        if response.get("response") == {"output": ""}:
            response["response"] = {"output": EMPTY_OUTPUT}
        if scheduling:
            response["scheduling"] = scheduling
    return message
