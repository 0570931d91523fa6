"""Session with a cascaded engine: acts as the provider of an OpenAI Realtime session, in this process.

The bridge uses this session like a WebSocket to OpenAI's server, with one difference: the response to speech waits
until the speech is transcribed and the bridge has handled the transcript. So if the words select another latency tier,
that tier already applies to this response. Wire format: OpenAI Realtime API, general availability.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead_speech.cascaded.audio import BadAudio, decode, milliseconds
from fairlead_speech.cascaded.config import BadEvent
from fairlead_speech.cascaded.conversation import ConversationItem, TooLargeItem, cut_result, message_parts, truncate
from fairlead_speech.cascaded.engine import CascadedEngine
from fairlead_speech.cascaded.event_queue import EventQueue
from fairlead_speech.cascaded.input_audio import MIN_TURN_MS, InputAudioBuffer
from fairlead_speech.cascaded.responses import Responses
from fairlead_speech.cascaded.state import SessionState
from fairlead_speech.cascaded.transcription import MAX_TURNS, TurnTranscription
from fairlead_speech.realtime import events
from fairlead_speech.realtime.events import Event, member, text
from fairlead_speech.session import SESSION_SECONDS, SpeechBounds
from fairlead_speech.sockets import GOING_AWAY, Closing

_WINDOWS_PER_STEP: Final = 50
"""Number of windows of audio that are measured before other tasks run: one second of audio."""
MAX_MESSAGE_TEXT: Final = 64 << 10
"""Maximum number of characters of a message that is copied from another session."""
_ROLES: Final = frozenset({"user", "assistant", "system"})


class CascadedSession:
    """Session of one client with a cascaded engine. The bridge uses it as the provider's side of the session."""

    received_binary = False
    stalled_seconds = 0.0

    def __init__(self, engine: CascadedEngine, model: str, clock: Callable[[], float], bounds: SpeechBounds) -> None:
        self.binary = False
        self._queue = EventQueue()
        self._numbers = itertools.count(1)
        self._lock = asyncio.Lock()
        self._is_closed = False
        self._expiry: asyncio.TimerHandle | None = None
        self.state = SessionState(engine, model, self._queue, self.new_id, clock, bounds)
        self._buffer = InputAudioBuffer(self.state.config.detection)
        self._turn_item_id = ""
        """Id of the item that the turn in progress will become."""
        self._transcription = TurnTranscription(self.state, self._on_transcribed)
        self._responses = Responses(self.state, self._transcription)
        self._handlers: dict[str, Callable[[Event], Awaitable[None]]] = {
            "session.update": self._update_session,
            "input_audio_buffer.append": self._append_audio,
            "input_audio_buffer.commit": self._commit_by_client,
            "input_audio_buffer.clear": self._clear_audio,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
        }
        self.state.emit("session.created", session=self.state.config.session)

    def set_slow_tier(self, is_slow: Callable[[], bool]) -> None:
        """Speak a filler phrase at the start of each response while `is_slow` returns True."""
        self.state.is_slow_tier = is_slow
        self.state.prepare_filler()

    def expire_in(self, seconds: float) -> None:
        """End the session after `seconds`, as OpenAI's server does at `expires_at`."""
        self._expiry = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        message = f"the session has ended after its maximum of {SESSION_SECONDS // 60} minutes: open another one"
        self._refuse(BadEvent("session_expired", message), {})
        self._queue.close(Closing(GOING_AWAY, message))

    def new_id(self, prefix: str) -> str:
        """Make an id that is unique in the session, with a prefix."""
        return f"{prefix}_{next(self._numbers):08}"

    def add_message(self, role: str, message_text: str) -> None:
        """Add a message of another session to the conversation, without events for the client."""
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": message_text[:MAX_MESSAGE_TEXT]}]
        self.state.conversation.add({"id": self.new_id("item"), "type": "message", "role": role, "content": content})

    async def interrupt(self, reason: str) -> bool:
        """Cancel the response in progress. Returns False if there is none."""
        async with self._lock:
            return await self._responses.interrupt(reason)

    # SessionSide

    async def receive(self) -> bytes | Closing:
        """Wait for the next event, or for the end of the session."""
        return await self._queue.get()

    async def send(self, payload: bytes) -> None:
        """Handle an event of the client. This never waits for room in the event queue: the bridge, which calls this,
        also empties the queue.
        """
        event = events.read(payload)
        async with self._lock:
            if self._is_closed:
                return
            try:
                handler = self._handlers.get(text(event, "type"))
                if handler is None:
                    raise BadEvent(
                        "invalid_value", f"a cascaded engine has no event {text(event, 'type')[:64]!r}", "type"
                    )
                await handler(event)
            except BadEvent as error:
                self._refuse(error, event)
            except TooLargeItem as error:
                self._refuse(BadEvent("string_above_max_length", str(error), "item"), event)

    async def close(self, closing: Closing) -> None:
        """Close the session, and cancel its tasks."""
        self._queue.close(closing)
        if self._expiry is not None:
            self._expiry.cancel()
        # wait for an event that is being handled, because it might start a task after the end
        async with self._lock:
            self._is_closed = True
            await self._responses.aclose()
            await self._transcription.aclose()
            await self.state.aclose()

    def _refuse(self, error: BadEvent, event: Event) -> None:
        details = {
            "type": "invalid_request_error",
            "code": error.code,
            "message": str(error),
            "param": error.param,
            "event_id": event.get("event_id"),
        }
        self.state.emit("error", error=details)

    # Events of the client

    async def _update_session(self, event: Event) -> None:
        state = self.state
        if state.config.update(member(event, "session"), voice_fixed=state.voice_used):
            self._buffer.detect(state.config.detection)
        state.emit("session.updated", session=state.config.session)
        state.prepare_filler()

    async def _append_audio(self, event: Event) -> None:
        try:
            audio = await decode(text(event, "audio"))
        except BadAudio as error:
            raise BadEvent("invalid_value", str(error), "audio") from error
        if len(audio) > self._buffer.room and self._buffer.speaking:
            await self._on_speech_stopped()  # the turn is longer than the buffer
        if len(audio) > self._buffer.room:  # turns that wait for transcription take space too
            message = "the input audio buffer is full with 4 minutes of audio: commit or clear it"
            raise BadEvent("input_audio_buffer_full", message, "audio")
        for number, window in enumerate(self._buffer.windows(audio)):
            change = self._buffer.add_window(window)
            if change:
                await self._on_speech_started()
            elif change is False:
                await self._on_speech_stopped()
            if number % _WINDOWS_PER_STEP == _WINDOWS_PER_STEP - 1:
                await asyncio.sleep(0)

    async def _on_speech_started(self) -> None:
        state, settings = self.state, self.state.config.detection
        self._turn_item_id = self.new_id("item")
        padding = 0 if settings is None else settings.prefix_padding_ms
        start = max(self._buffer.milliseconds - padding, 0)
        state.emit("input_audio_buffer.speech_started", audio_start_ms=start, item_id=self._turn_item_id)
        if settings is not None and settings.interrupt_response:
            await self._responses.interrupt("turn_detected")

    async def _on_speech_stopped(self) -> None:
        state, settings = self.state, self.state.config.detection
        state.emit(
            "input_audio_buffer.speech_stopped", audio_end_ms=self._buffer.milliseconds, item_id=self._turn_item_id
        )
        if self._transcription.full:
            self._buffer.clear()
            self._turn_item_id = ""
            state.emit("input_audio_buffer.cleared")
            self._refuse(_too_many_turns(), {})
            return
        self._commit()
        if settings is not None and settings.create_response:
            self._responses.answer_speech()

    async def _commit_by_client(self, _: Event) -> None:
        if milliseconds(len(self._buffer)) < MIN_TURN_MS:
            raise BadEvent(
                "input_audio_buffer_commit_empty",
                f"the input audio buffer has less than {MIN_TURN_MS} ms of audio",
                None,
            )
        if self._transcription.full:
            raise _too_many_turns()
        self._commit()

    def _commit(self) -> None:
        """Add the turn's audio as an item of the conversation, and start its transcription."""
        audio, ident, state = self._buffer.take_turn(), self._turn_item_id or self.new_id("item"), self.state
        self._turn_item_id = ""
        state.end_turn()
        state.emit("input_audio_buffer.committed", previous_item_id=state.conversation.last, item_id=ident)
        content = [{"type": "input_audio", "transcript": None}]
        self._transcribe(self._add_item({"id": ident, "type": "message", "role": "user", "content": content}), audio)

    def _transcribe(self, item: ConversationItem, audio: bytes) -> None:
        self._buffer.transcribing_bytes += len(audio)
        config = self.state.config
        self._transcription.begin(item, audio, config.language, visible=config.transcribes)

    def _on_transcribed(self, size: int) -> None:
        self._buffer.transcribing_bytes -= size

    async def _clear_audio(self, _: Event) -> None:
        self._buffer.clear()
        self.state.emit("input_audio_buffer.cleared")

    async def _create_item(self, event: Event) -> None:
        item, state = member(event, "item"), self.state
        if text(item, "id") in state.conversation:
            raise BadEvent("item_create_duplicate_id", "the conversation already has an item with this id", "item.id")
        kind = item.get("type")
        if kind == "function_call_output":
            room = state.conversation.result_room(text(item, "call_id"))
            if not room:
                code = "item_create_invalid_tool_call_id"
                raise BadEvent(code, "the conversation has no call with this id", "item.call_id")
            self._add_item(cut_result(item, room), text(event, "previous_item_id"))
        elif kind == "function_call":
            self._add_item(item, text(event, "previous_item_id"))
        elif kind == "message" and item.get("role") in _ROLES:
            await self._create_message(item, text(event, "previous_item_id"))
        else:
            raise BadEvent(
                "invalid_value", "item.type must be message, function_call or function_call_output", "item.type"
            )

    async def _create_message(self, item: Event, after: str) -> None:
        parts, audio = await message_parts(item, self._buffer.room)
        if audio and self._transcription.full:
            raise _too_many_turns()
        added_item = self._add_item({**item, "content": parts}, after)
        if item["role"] == "user":
            self.state.end_turn()
        if audio:
            self._transcribe(added_item, audio)

    def _add_item(self, item: Event, after: str = "") -> ConversationItem:
        """Add an item of the client after the item `after`, or at the end of the conversation."""
        wire = {"object": "realtime.item", "status": "completed", **item}
        if not text(wire, "id"):
            wire["id"] = self.new_id("item")
        added_item, previous_id = self.state.conversation.add(wire, after=after or None)
        self.state.emit("conversation.item.added", previous_item_id=previous_id, item=wire)
        self.state.emit("conversation.item.done", previous_item_id=previous_id, item=wire)
        return added_item

    def _item(self, event: Event) -> ConversationItem:
        item = self.state.conversation.get(text(event, "item_id"))
        if item is None:
            raise BadEvent("item_not_found", "the conversation has no item with this id", "item_id")
        return item

    async def _retrieve_item(self, event: Event) -> None:
        self.state.emit("conversation.item.retrieved", item=self._item(event).wire)

    async def _truncate_item(self, event: Event) -> None:
        item, end_ms = self._item(event), event.get("audio_end_ms")
        if not item.spoken or not isinstance(end_ms, int) or end_ms < 0:
            message = "only spoken answers can be truncated, with audio_end_ms as an integer of at least 0"
            raise BadEvent("invalid_value", message, "item_id")
        wire = truncate(item, end_ms)
        if wire is None:
            raise BadEvent("invalid_value", "audio_end_ms is after the end of the item's audio", "audio_end_ms")
        self.state.update(item, wire)
        self.state.emit("conversation.item.truncated", item_id=item.id, content_index=0, audio_end_ms=end_ms)

    async def _delete_item(self, event: Event) -> None:
        item = self._item(event)
        self.state.conversation.remove(item.id)
        self.state.emit("conversation.item.deleted", item_id=item.id)

    async def _create_response(self, event: Event) -> None:
        self._responses.create(member(event, "response"))

    async def _cancel_response(self, _: Event) -> None:
        if not await self._responses.interrupt("client_cancelled"):
            raise BadEvent("response_cancel_not_active", "no response is in progress", None)


def _too_many_turns() -> BadEvent:
    message = f"{MAX_TURNS} turns of speech wait for transcription: send more audio when one is transcribed"
    return BadEvent("rate_limit_exceeded", message)
