"""Routed Gemini Live session: a cascaded engine (speech to text, a model, text to speech) answers the turns in slow
latency tiers, the provider answers all other turns.

Turns are detected by the gateway or marked by the client; the provider's own detection is off. The provider gets the
audio of the turns that it answers, between `activityStart` and `activityEnd`, and the text of all other turns as
`clientContent`. So each turn has one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import ModelCall
from fairlead_models.cascaded_engines import SlowTurns
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
    has_member,
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
from fairlead_speech.tiers import is_slow, words_may_decide

_COUNT_PER_STEP: Final = 50
"""Number of windows of audio, blobs or contents that are read before other tasks run."""
_SLICE_BYTES: Final = 1 << 20
"""Number of bytes of audio that are read before other tasks run."""
_INITIAL_RATE: Final = 16_000
_TURN_MEMBERS: Final = ("activityStart", "activityEnd", "audioStreamEnd")
_encode: Final = msgspec.json.encode
_TEXT_MEMBER: Final = b'"text"'


class RoutedLive:
    """Routed session. It sits between the bridge and the session with the provider."""

    client_messages: MessageReader = ROUTED_CLIENT_MESSAGES
    provider_messages: MessageReader = PROVIDER_MESSAGES

    def __init__(self, parts: RoutedParts, turns: RoutedTurns, waits_for_words: Callable[[], bool]) -> None:
        """`waits_for_words`: whether the words of a turn decide who answers it, the engine or the provider."""
        self._session = parts.session
        self.end = parts.session.end
        self._answerer = parts.answerer
        self._engine_messages = parts.engine_messages
        self._setup = parts.setup
        self._turns = turns
        self._provider = parts.provider
        self._waits_for_words = waits_for_words
        self._is_slow = parts.is_slow
        self._transcript = RoutedTranscript(parts.answerer)
        self._buffer = InputAudioBuffer(parts.setup.detection, _INITIAL_RATE)
        self._is_streaming = False
        """Whether the provider gets the audio of the turn in progress while the user speaks."""
        self._last_streamed = False
        """Whether the provider got the last turn's audio while the user spoke. Then only the provider has a transcript
        of that turn.
        """

    @property
    def responding(self) -> bool:
        """Whether the provider or the engine is responding, or is about to."""
        return self._session.responding or self._turns.busy

    async def set_tools(self, offer: ToolOffer) -> None:
        """Set the tools of the provider's model."""
        await self._session.set_tools(offer)

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Send the result of a call to the provider."""
        await self._session.send_result(call, result)

    async def announce_drain(self, seconds: float) -> None:
        """Send the client a `goAway`."""
        await self._session.announce_drain(seconds)

    async def aclose(self) -> None:
        """Cancel the tasks of the session."""
        await self._turns.aclose()
        await self._session.aclose()

    # Messages of the client

    async def from_client(self, payload: bytes) -> bytes | None:
        """Translate a message of the client for the provider. Returns None if nothing is forwarded."""
        message = messages.read(payload)
        if has_member(message, "realtimeInput"):
            return await self._client_realtime_input(message)
        if has_member(message, "clientContent"):
            return await self._client_content(payload, message)
        if has_member(message, "toolResponse"):
            return await self._client_tool_response(payload, message)
        forwarded = await self._session.from_client(payload)
        if forwarded is not None and has_member(message, "contextUpdate"):
            self._setup.update(message)
        return forwarded

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """Return the session's answer to a message that cannot be read: None, because the session ends."""
        return self._session.refusal(error)

    async def _client_realtime_input(self, message: Message) -> bytes | None:
        realtime_input = member(message, "realtimeInput")
        remaining = dict(realtime_input)
        number = 0
        async for decoded in input_audio(realtime_input, remaining):
            audio, rate = decoded or (b"", 0)
            for start in range(0, len(audio), _SLICE_BYTES):
                await self._append_audio(audio[start : start + _SLICE_BYTES], rate)
            number += 1
            if number % _COUNT_PER_STEP == 0:
                await asyncio.sleep(0)
        client_marks_turns = self._setup.detection is None  # without detection, the client marks turns
        if client_marks_turns and has_member(remaining, "activityStart") and not self._turns.speaking:
            await self._on_speech_started()
        turn_ends = has_member(remaining, "audioStreamEnd") or (
            client_marks_turns and has_member(remaining, "activityEnd")
        )
        if turn_ends and self._turns.speaking:
            await self._on_speech_stopped()
        if text(remaining, "text"):
            await self._add_written_turn({"realtimeInput": {"text": text(remaining, "text")}})
            remaining = messages.without_members(remaining, "text") or {}
        remaining_message = messages.without_members(remaining, *_TURN_MEMBERS)
        return None if remaining_message is None else _encode({"realtimeInput": remaining_message})

    async def _client_content(self, payload: bytes, message: Message) -> bytes | None:
        content = member(message, "clientContent")
        if content.get(key(content, "turnComplete")):
            await self._add_written_turn(message)
            return None
        for number, turn in enumerate(members(content, "turns")):
            self._transcript.add_client_content(turn)
            if number % _COUNT_PER_STEP == _COUNT_PER_STEP - 1:
                await asyncio.sleep(0)
        return await self._session.from_client(payload)

    async def _add_written_turn(self, message: Message) -> None:
        """Queue a written turn, and wait until it is decided whether the engine or the provider answers it, so that
        later messages are sent after it.
        """
        await self._turns.interrupt_engine()
        await self._turns.interrupt_provider()
        turn = UserTurn(message=message, size=len(_encode(message)))
        while turn.size > self._turns.room and self._turns.working:
            await self._turns.wait_for_room()
        self._turns.add(turn)
        await self._turns.wait_for_decision(turn)
        if self._is_streaming:
            self._session.begin_activity()  # the spoken turn continues, though the written turn requested an answer

    async def _client_tool_response(self, payload: bytes, message: Message) -> bytes | None:
        """Forward results of the client's tools to the engine or to the provider, depending on which of them made the
        call.
        """
        response = member(message, "toolResponse")
        answers = members(response, "functionResponses")
        for_engine = False
        for answer in answers:
            if self._engine_messages.open_calls.pop(text(answer, "id"), None) is None:
                continue
            for_engine = True
            item = {"type": "function_call_output", "call_id": text(answer, "id"), "output": _output(answer)}
            await self._answerer.take_client_event({"type": "conversation.item.create", "item": item})
        if for_engine and not self._engine_messages.open_calls:
            await self._answerer.finish_client_calls()
        # results of the engine's calls never concern the provider, even if they are repeated or late
        provider_results = [answer for answer in answers if text(answer, "id") not in self._answerer.relay.made_calls]
        if len(provider_results) == len(answers):
            return await self._session.from_client(payload)
        if not provider_results:
            return None
        name = key(message, "toolResponse")
        forwarded = {**message, name: {**response, key(response, "functionResponses"): provider_results}}
        return await self._session.from_client(_encode(forwarded))

    # Audio of the user

    async def _append_audio(self, audio: bytes, rate: int) -> None:
        if rate != self._buffer.rate:
            if self._turns.speaking:
                await self._on_speech_stopped()
            self._buffer = InputAudioBuffer(self._setup.detection, rate)
        if self._setup.detection is None and not self._turns.speaking:
            await self._provider.send(audio_message(audio, rate))  # outside of the turns that the client marks
            return
        await self._make_room(len(audio))
        for number, window in enumerate(self._buffer.windows(audio)):
            change = self._buffer.add_window(window)
            if change:
                await self._on_speech_started()
            elif change is False:
                await self._on_speech_stopped()
            if number % _COUNT_PER_STEP == _COUNT_PER_STEP - 1:
                await asyncio.sleep(0)
        if self._is_streaming:
            await self._stream_audio()

    async def _make_room(self, size: int) -> None:
        """Wait until the queue has room for `size` bytes. If the user's turn in progress is too long for the queue, end
        that turn. Return without room if no turn is in progress or queued: then nothing will leave the queue.
        """
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
        can_stream = not self._turns.busy and (self._setup.interrupts or not self._session.answering)
        if can_stream and not self._waits_for_words():
            await self._turns.begin_streamed_turn()
            self._is_streaming = not self._is_slow(self._session.tier)
        self._last_streamed = self._is_streaming
        if self._is_streaming:
            await self._turns.send_pending(interrupts=True)
            self._turns.ignores_provider = self._turns.transcript_sent = False
            self._session.begin_activity()
            await self._provider.send(ACTIVITY_START)
        elif self._setup.interrupts:
            await self._turns.interrupt_provider()

    async def _on_speech_stopped(self) -> None:
        self._turns.speaking = False
        if self._is_streaming:
            await self._stream_audio()
            self._buffer.take_turn()
            self._is_streaming = False
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
        """Translate a message of the provider for the client. Returns None if nothing is forwarded."""
        content = messages.read_server(payload).server_content
        if content is not None and content.about_answer and not self._turns.ignores_provider:
            await self._hold_answer()
        is_ignored = self._turns.ignores_provider
        forwarded = await self._session.from_provider(payload)
        if content is None:
            return forwarded
        if not is_ignored:
            self._transcript.add_server_content(content, payload, streamed=self._last_streamed)
        if content.turn_over:
            self._transcript.end_turn()
            self._turns.on_provider_idle()
            await self._turns.send_pending()
        if is_ignored and forwarded is not None:
            remaining = messages.without_members(messages.read(forwarded), "serverContent")
            return None if remaining is None else _encode(remaining)
        return forwarded if forwarded is None else self._without_hidden_transcripts(forwarded, content)

    async def _hold_answer(self) -> None:
        """Hold back the provider's answer until the engine's answer has ended, so that the two do not speak at the same
        time.
        """
        self._turns.provider_waits = True
        await self._turns.wait_for_engine()
        self._turns.provider_waits = False

    def _without_hidden_transcripts(self, payload: bytes, content: ServerContent) -> bytes | None:
        """Remove transcripts that the client did not request or has already received."""
        hidden_members = []
        if content.input_transcription is not None and (not self._setup.shows_input or self._turns.transcript_sent):
            hidden_members.append("inputTranscription")
        if messages.is_present(content.output_transcription) and not self._setup.shows_output:
            hidden_members.append("outputTranscription")
        if not hidden_members:
            return payload
        message = messages.read(payload)
        remaining = messages.without_members(member(message, "serverContent"), *hidden_members)
        if remaining is not None:
            return _encode({**message, "serverContent": remaining})
        remaining_message = messages.without_members(message, "serverContent")
        return None if remaining_message is None else _encode(remaining_message)


def _output(answer: Message) -> str:
    """Result of a client's tool as text: the value of `output` if the result has no other member, else the whole result
    as JSON.
    """
    response = member(answer, "response")
    output = response.get("output") if [*response] == ["output"] else response
    return output if isinstance(output, str) else _encode(output).decode()


class RoutedTranscript:
    """Copies Gemini's transcripts of the user and of the model to the conversation of the engine."""

    def __init__(self, answerer: TurnAnswerer) -> None:
        self._answerer = answerer
        self._user_text = ""
        self._model_text = ""

    def add_client_content(self, content: Message) -> None:
        """Copy a content that the client added to the conversation."""
        words = " ".join(text(part, "text") for part in members(content, "parts") if text(part, "text"))
        if words:
            self._answerer.add_message("assistant" if text(content, "role") == "model" else "user", words)

    def add_server_content(self, content: ServerContent, payload: bytes, *, streamed: bool) -> None:
        """Collect the provider's transcripts. `streamed`: whether the provider got the turn's audio while the user
        spoke, so that only the provider transcribes it.
        """
        if content.input_transcription is not None and streamed:
            self._user_text = (self._user_text + (content.input_transcription.text or ""))[-MAX_MESSAGE_TEXT:]
        if not content.has_output:
            return
        self._add_user_message()
        server_content = member(read(payload), "serverContent") if _has_text(content) else {}
        self._model_text += text(member(server_content, "outputTranscription"), "text")
        for part in members(member(server_content, "modelTurn"), "parts"):
            self._model_text += text(part, "text")
        self._model_text = self._model_text[:MAX_MESSAGE_TEXT]

    def end_turn(self) -> None:
        """Copy the collected transcripts to the engine's conversation, at the end of the provider's turn."""
        self._add_user_message()
        words, self._model_text = self._model_text.strip(), ""
        if words:
            self._answerer.add_message("assistant", words)

    def _add_user_message(self) -> None:
        words, self._user_text = self._user_text.strip(), ""
        if words:
            self._answerer.add_message("user", words)


def _has_text(content: ServerContent) -> bool:
    """Whether a content has text. Most contents are audio; for speed, they are searched but not decoded."""
    return is_present(content.output_transcription) or _TEXT_MEMBER in bytes(content.model_turn)


class LiveRouting:
    """Decides for the turns of one session whether the provider or the cascaded engine answers."""

    def __init__(self, slow_turns: SlowTurns, opened_model: OpenedModel, setup: Message) -> None:
        """`setup`: the client's setup message."""
        self._slow_turns = slow_turns
        self._opened_model = opened_model
        self.setup = RoutedSetup(setup)

    def is_slow(self, tier: str | None) -> bool:
        """Whether the engine answers the turns of a tier."""
        return is_slow(self._opened_model.toolbox.catalog(), tier, self._slow_turns.from_tier)

    def waits_for_words(self) -> bool:
        """Whether the words of a turn decide who answers it, the engine or the provider."""
        opened_model = self._opened_model
        return words_may_decide(opened_model.toolbox.catalog(), opened_model.tier.named, self._slow_turns.from_tier)

    def wrap(
        self,
        session: LiveSession,
        services: SpeechServices,
        client: MessageSink,
        provider: MessageSink,
        record: RequestRecord,
    ) -> RoutedLive:
        """Wrap a session in a routed session. The session must have been set up by `RoutedSetup.for_provider`."""
        engine_messages = EngineMessages(client, self.setup, services.clock)
        answerer = make_turn_answerer(
            services, self._slow_turns.engine, self._opened_model, engine_messages, record, session.end
        )
        parts = RoutedParts(session, answerer, engine_messages, self.setup, provider, self.is_slow)
        turns = RoutedTurns(parts, services.tools.work.do, services.metrics, services.bounds)
        return RoutedLive(parts, turns, self.waits_for_words)


def live_routing(services: SpeechServices, opened_model: OpenedModel, setup: Message) -> LiveRouting | None:
    """Routing for a session. None if the provider has no settings for slow turns, or if the model accepts no
    `clientContent` during a session. `setup`: the client's setup message.
    """
    slow_turns = services.providers().by_name[opened_model.target.provider].slow_turns
    if slow_turns is None or not live_model(opened_model.target.model).takes_content:
        return None
    return LiveRouting(slow_turns, opened_model, setup)
