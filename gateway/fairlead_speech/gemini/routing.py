"""Session of Gemini Live whose slow turns a cascaded engine answers in the provider's place.

The provider finds no turns by itself: the gateway does, or its client. It gets the audio of those that it is to answer,
between `activityStart` and `activityEnd`, and is told in words of the others. So each turn has one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import ModelCall
from fairlead_models.cascaded import SlowTurns
from fairlead_models.request_record import RequestRecord
from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.cascaded.answering import TurnAnswerer
from fairlead_speech.cascaded.input_audio import InputAudioBuffer
from fairlead_speech.cascaded.session import MAX_MESSAGE_TEXT
from fairlead_speech.gemini import messages
from fairlead_speech.gemini.engine_messages import EngineMessages
from fairlead_speech.gemini.messages import (
    PROVIDER_MESSAGES,
    ROUTED_CLIENT_MESSAGES,
    Message,
    ServerContent,
    has,
    is_present,
    key,
    member,
    members,
    read,
    text,
)
from fairlead_speech.gemini.models import live_model
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.gemini.routed_turns import RoutedParts, RoutedTurns
from fairlead_speech.gemini.session import LiveSession
from fairlead_speech.gemini.user_turns import ACTIVITY_END, ACTIVITY_START, UserTurn, audio_message, input_audio
from fairlead_speech.messages import MessageReader, UnreadableMessage
from fairlead_speech.services import OpenedModel, SpeechServices, make_turn_answerer
from fairlead_speech.session import MessageSink
from fairlead_speech.tiers import decided_by_words, is_slow

_PER_STEP: Final = 50
"""Windows of audio, blobs or contents that are looked at before others have their turn."""
_SLICE_BYTES: Final = 1 << 20
"""Audio of one message that is taken at a time."""
_FIRST_RATE: Final = 16_000
_TURN_MEMBERS: Final = ("activityStart", "activityEnd", "audioStreamEnd")
_encode: Final = msgspec.json.encode
_TEXT: Final = b'"text"'


class RoutedLive:
    """One session: between the bridge and the session that it looks into."""

    client_messages: MessageReader = ROUTED_CLIENT_MESSAGES
    provider_messages: MessageReader = PROVIDER_MESSAGES

    def __init__(self, parts: RoutedParts, turns: RoutedTurns, waits_for_words: Callable[[], bool]) -> None:
        """`waits_for_words`: whether the words of a turn decide who answers it."""
        self._session = parts.session
        self.end = parts.session.end
        self._answerer = parts.answerer
        self._voice = parts.voice
        self._setup = parts.setup
        self._turns = turns
        self._provider = parts.provider
        self._waits_for_words = waits_for_words
        self._is_slow = parts.is_slow
        self._transcript = RoutedTranscript(parts.answerer)
        self._buffer = InputAudioBuffer(parts.setup.detection, _FIRST_RATE)
        self._streams = False
        """Whether the provider hears the turn in progress while it is spoken."""
        self._last_streamed = False
        """Whether it heard the last one so: nobody else did."""

    @property
    def responding(self) -> bool:
        """Whether somebody is in the middle of an answer, or owes one."""
        return self._session.responding or self._turns.busy

    async def set_tools(self, offer: ToolOffer) -> None:
        """Show these tools."""
        await self._session.set_tools(offer)

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Give the model a result."""
        await self._session.send_result(call, result)

    async def announce_drain(self, seconds: float) -> None:
        """Tell the client so."""
        await self._session.announce_drain(seconds)

    async def aclose(self) -> None:
        """Cancel all that goes on for it."""
        await self._turns.aclose()
        await self._session.aclose()

    # Messages of the client

    async def from_client(self, payload: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        message = messages.read(payload)
        if has(message, "realtimeInput"):
            return await self._client_realtime_input(message)
        if has(message, "clientContent"):
            return await self._client_content(payload, message)
        if has(message, "toolResponse"):
            return await self._client_tool_response(payload, message)
        forwarded = await self._session.from_client(payload)
        if forwarded is not None and has(message, "contextUpdate"):
            self._setup.update(message)
        return forwarded

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """None: the session ends."""
        return self._session.refusal(error)

    async def _client_realtime_input(self, message: Message) -> bytes | None:
        live = member(message, "realtimeInput")
        left = dict(live)
        number = 0
        async for decoded in input_audio(live, left):
            audio, rate = decoded or (b"", 0)
            for start in range(0, len(audio), _SLICE_BYTES):
                await self._append_audio(audio[start : start + _SLICE_BYTES], rate)
            number += 1
            if number % _PER_STEP == 0:
                await asyncio.sleep(0)
        marked = self._setup.detection is None  # other clients may not mark turns
        if marked and has(left, "activityStart") and not self._turns.speaking:
            await self._on_speech_started()
        ends = has(left, "audioStreamEnd") or (marked and has(left, "activityEnd"))
        if ends and self._turns.speaking:
            await self._on_speech_stopped()
        if text(left, "text"):
            await self._add_written_turn({"realtimeInput": {"text": text(left, "text")}})
            left = messages.without(left, "text") or {}
        rest = messages.without(left, *_TURN_MEMBERS)
        return None if rest is None else _encode({"realtimeInput": rest})

    async def _client_content(self, payload: bytes, message: Message) -> bytes | None:
        content = member(message, "clientContent")
        if content.get(key(content, "turnComplete")):
            await self._add_written_turn(message)
            return None
        for number, turn in enumerate(members(content, "turns")):
            self._transcript.add_client_content(turn)
            if number % _PER_STEP == _PER_STEP - 1:
                await asyncio.sleep(0)
        return await self._session.from_client(payload)

    async def _add_written_turn(self, message: Message) -> None:
        """Take a turn in writing, and wait until it is known who answers it: what follows it comes behind it."""
        await self._turns.interrupt_engine()
        await self._turns.interrupt_provider()
        turn = UserTurn(message=message, size=len(_encode(message)))
        while turn.size > self._turns.room and self._turns.working:
            await self._turns.wait_for_room()
        self._turns.add(turn)
        await self._turns.wait_for_decision(turn)
        if self._streams:
            self._session.begin_activity()  # it still does: what is written had it asked for another answer

    async def _client_tool_response(self, payload: bytes, message: Message) -> bytes | None:
        """Take results of the client's own tools: each to the engine or the provider, by who called."""
        response = member(message, "toolResponse")
        answers = members(response, "functionResponses")
        taken = False
        for each in answers:
            if self._voice.open_calls.pop(text(each, "id"), None) is None:
                continue
            taken = True
            item = {"type": "function_call_output", "call_id": text(each, "id"), "output": _output(each)}
            await self._answerer.take_client_event({"type": "conversation.item.create", "item": item})
        if taken and not self._voice.open_calls:
            await self._answerer.finish_client_calls()
        # a result that comes again, or once its call was taken back, is nothing that the provider asked for
        others = [each for each in answers if text(each, "id") not in self._answerer.relay.made_calls]
        if len(others) == len(answers):
            return await self._session.from_client(payload)
        if not others:
            return None
        name = key(message, "toolResponse")
        forwarded = {**message, name: {**response, key(response, "functionResponses"): others}}
        return await self._session.from_client(_encode(forwarded))

    # What the user says

    async def _append_audio(self, audio: bytes, rate: int) -> None:
        if rate != self._buffer.rate:
            if self._turns.speaking:
                await self._on_speech_stopped()
            self._buffer = InputAudioBuffer(self._setup.detection, rate)
        if self._setup.detection is None and not self._turns.speaking:
            await self._provider.send(audio_message(audio, rate))  # beside the turns that the client marks
            return
        await self._make_room(len(audio))
        for number, window in enumerate(self._buffer.windows(audio)):
            change = self._buffer.add_window(window)
            if change:
                await self._on_speech_started()
            elif change is False:
                await self._on_speech_stopped()
            if number % _PER_STEP == _PER_STEP - 1:
                await asyncio.sleep(0)
        if self._streams:
            await self._stream_audio()

    async def _make_room(self, size: int) -> None:
        """Hold the client up while more is kept than may be; a turn without an end is over then."""
        while len(self._buffer) + size > self._turns.room:
            if self._turns.speaking:
                await self._on_speech_stopped()
            elif self._turns.working:
                await self._turns.wait_for_room()
            else:
                return

    async def _on_speech_started(self) -> None:
        self._turns.speaking = True
        if self._setup.interrupts:
            await self._turns.interrupt_engine()
        await self._turns.wait_for_slot()
        free = not self._turns.busy and (self._setup.interrupts or not self._session.answering)
        if free and not self._waits_for_words():
            await self._turns.begin_streamed_turn()
            self._streams = not self._is_slow(self._session.tier)
        self._last_streamed = self._streams
        if self._streams:
            await self._turns.send_pending(interrupts=True)
            self._turns.ignores_provider = self._turns.transcript_shown = False
            self._session.begin_activity()
            await self._provider.send(ACTIVITY_START)
        elif self._setup.interrupts:
            await self._turns.interrupt_provider()

    async def _on_speech_stopped(self) -> None:
        self._turns.speaking = False
        if self._streams:
            await self._stream_audio()
            self._buffer.take_turn()
            self._streams = False
            await self._turns.end_streamed_turn()
            self._session.request_answer()
            await self._provider.send(ACTIVITY_END)
            return
        audio = self._buffer.take_turn()
        self._turns.add(UserTurn(audio, self._buffer.rate, size=len(audio)))

    async def _stream_audio(self) -> None:
        audio = self._buffer.take_partial()
        if audio:
            await self._provider.send(audio_message(audio, self._buffer.rate))

    # Messages of the provider

    async def from_provider(self, payload: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
        content = messages.read_server(payload).server_content
        if content is not None and content.about_answer and not self._turns.ignores_provider:
            await self._hold_answer()
        late = self._turns.ignores_provider
        forwarded = await self._session.from_provider(payload)
        if content is None:
            return forwarded
        if not late:
            self._transcript.add_server_content(content, payload, streamed=self._last_streamed)
        if content.turn_over:
            self._transcript.end_turn()
            self._turns.on_provider_idle()
            await self._turns.send_pending()
        if late and forwarded is not None:
            left = messages.without(messages.read(forwarded), "serverContent")
            return None if left is None else _encode(left)
        return forwarded if forwarded is None else self._visible(forwarded, content)

    async def _hold_answer(self) -> None:
        """Have an answer of the provider's, and its end, wait for the end of the engine's: one of them speaks."""
        self._turns.provider_waits = True
        await self._turns.wait_for_engine()
        self._turns.provider_waits = False

    def _visible(self, payload: bytes, content: ServerContent) -> bytes | None:
        """The frame without transcripts that the client did not ask for, or has had."""
        hidden = []
        if content.input_transcription is not None and (not self._setup.shows_input or self._turns.transcript_shown):
            hidden.append("inputTranscription")
        if messages.is_present(content.output_transcription) and not self._setup.shows_output:
            hidden.append("outputTranscription")
        if not hidden:
            return payload
        message = messages.read(payload)
        left = messages.without(member(message, "serverContent"), *hidden)
        if left is not None:
            return _encode({**message, "serverContent": left})
        rest = messages.without(message, "serverContent")
        return None if rest is None else _encode(rest)


def _output(answer: Message) -> str:
    """A result as a text: what the client calls its output, or all that it says."""
    response = member(answer, "response")
    output = response.get("output") if [*response] == ["output"] else response
    return output if isinstance(output, str) else _encode(output).decode()


class RoutedTranscript:
    """Memory of one session."""

    def __init__(self, answerer: TurnAnswerer) -> None:
        self._answerer = answerer
        self._user = ""
        self._model = ""

    def add_client_content(self, content: Message) -> None:
        """Take a content that the client adds to the conversation."""
        words = " ".join(text(part, "text") for part in members(content, "parts") if text(part, "text"))
        if words:
            self._answerer.add_message("assistant" if text(content, "role") == "model" else "user", words)

    def add_server_content(self, content: ServerContent, payload: bytes, *, streamed: bool) -> None:
        """Take what the provider hears and says. `streamed`: it hears turns that nobody heard before."""
        if content.input_transcription is not None and streamed:
            self._user = (self._user + (content.input_transcription.text or ""))[-MAX_MESSAGE_TEXT:]
        if not content.has_output:
            return
        self._add_user_message()
        decoded = member(read(payload), "serverContent") if _in_words(content) else {}
        self._model += text(member(decoded, "outputTranscription"), "text")
        for part in members(member(decoded, "modelTurn"), "parts"):
            self._model += text(part, "text")
        self._model = self._model[:MAX_MESSAGE_TEXT]

    def end_turn(self) -> None:
        """The provider's turn is over."""
        self._add_user_message()
        words, self._model = self._model.strip(), ""
        if words:
            self._answerer.add_message("assistant", words)

    def _add_user_message(self) -> None:
        words, self._user = self._user.strip(), ""
        if words:
            self._answerer.add_message("user", words)


def _in_words(content: ServerContent) -> bool:
    """Whether there are words in it: most of what comes is audio, which is not looked through."""
    return is_present(content.output_transcription) or _TEXT in bytes(content.model_turn)


class LiveRouting:
    """Routing of one session."""

    def __init__(self, slow: SlowTurns, opened: OpenedModel, setup: Message) -> None:
        """`setup` is the client's."""
        self._slow = slow
        self._opened = opened
        self.setup = RoutedSetup(setup)

    def is_slow(self, tier: str | None) -> bool:
        """Whether turns of a tier are the engine's."""
        return is_slow(self._opened.toolbox.catalog(), tier, self._slow.from_tier)

    def waits_for_words(self) -> bool:
        """Whether who answers a turn is known only once its words are."""
        opened = self._opened
        return decided_by_words(opened.toolbox.catalog(), opened.tier.named, self._slow.from_tier)

    def wrap(
        self,
        session: LiveSession,
        services: SpeechServices,
        client: MessageSink,
        provider: MessageSink,
        record: RequestRecord,
    ) -> RoutedLive:
        """The routed session around one that has `setup.outgoing()`."""
        voice = EngineMessages(client, self.setup, services.clock)
        answerer = make_turn_answerer(services, self._slow.engine, self._opened, voice, record, session.end)
        parts = RoutedParts(session, answerer, voice, self.setup, provider, self.is_slow)
        turns = RoutedTurns(parts, services.tools.work.do, services.metrics, services.bounds)
        return RoutedLive(parts, turns, self.waits_for_words)


def live_routing(services: SpeechServices, opened: OpenedModel, setup: Message) -> LiveRouting | None:
    """Routing of a session whose client sent that setup; None where none of its turns is slow, or its model cannot be
    told of what others answered.
    """
    slow = services.providers().by_name[opened.target.provider].slow_turns
    if slow is None or not live_model(opened.target.model).takes_content:
        return None
    return LiveRouting(slow, opened, setup)
