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
from fairlead_speech.cascaded.input_audio import InputBuffer
from fairlead_speech.cascaded.session import MOST_SAID
from fairlead_speech.gemini import messages
from fairlead_speech.gemini.engine_messages import EngineVoice
from fairlead_speech.gemini.messages import (
    HEARD_FRAMES,
    PROVIDER_FRAMES,
    Message,
    ServerContent,
    has,
    is_there,
    key,
    member,
    members,
    read,
    text,
)
from fairlead_speech.gemini.models import live_model
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.gemini.routed_turns import RoutedTurns
from fairlead_speech.gemini.session import LiveSession
from fairlead_speech.gemini.user_turns import BEGIN, END, UserTurn, audio_message, heard_audio
from fairlead_speech.messages import FrameReader, UnreadableFrame
from fairlead_speech.services import OpenedModel, SpeechServices, turn_answerer
from fairlead_speech.session import FrameSink
from fairlead_speech.tiers import decided_by_words, is_slow

_PIECE: Final = 50
"""Windows of audio, blobs or contents that are looked at before others have their turn."""
_SLICE_BYTES: Final = 1 << 20
"""Audio of one message that is taken at a time."""
_FIRST_RATE: Final = 16_000
_OF_TURNS: Final = ("activityStart", "activityEnd", "audioStreamEnd")
_encode: Final = msgspec.json.encode


class RoutedLive:
    """One session: between the bridge and the session that it looks into."""

    client_frames: FrameReader = HEARD_FRAMES
    provider_frames: FrameReader = PROVIDER_FRAMES

    def __init__(
        self,
        session: LiveSession,
        answerer: TurnAnswerer,
        voice: EngineVoice,
        setup: RoutedSetup,
        turns: RoutedTurns,
        provider: FrameSink,
        waits_for_words: Callable[[], bool],
        is_slow: Callable[[str | None], bool],
    ) -> None:
        """`waits_for_words`: whether who answers a turn is known only once its words are. `is_slow`: whether turns of
        a tier are the engine's.
        """
        self._session = session
        self.end = session.end
        self._answerer = answerer
        self._voice = voice
        self._setup = setup
        self._turns = turns
        self._provider = provider
        self._waits_for_words = waits_for_words
        self._is_slow = is_slow
        self._memory = RoutedMemory(answerer)
        self._buffer = InputBuffer(setup.detection, _FIRST_RATE)
        self._streams = False
        """Whether the provider hears the turn in progress while it is spoken."""
        self._streamed = False
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

    async def retire(self, seconds: float) -> None:
        """Tell the client so."""
        await self._session.retire(seconds)

    async def aclose(self) -> None:
        """Cancel all that goes on for it."""
        await self._turns.aclose()
        await self._session.aclose()

    # Frames of the client

    async def from_client(self, frame: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        message = messages.read(frame)
        if has(message, "realtimeInput"):
            return await self._live(message)
        if has(message, "clientContent"):
            return await self._content(frame, message)
        if has(message, "toolResponse"):
            return await self._results(frame, message)
        passed = await self._session.from_client(frame)
        if passed is not None and has(message, "contextUpdate"):
            self._setup.updated(message)
        return passed

    def refusal(self, error: UnreadableFrame) -> bytes | None:
        """None: the session ends."""
        return self._session.refusal(error)

    async def _live(self, message: Message) -> bytes | None:
        live = member(message, "realtimeInput")
        left = dict(live)
        number = 0
        async for found in heard_audio(live, left):
            audio, rate = found or (b"", 0)
            for start in range(0, len(audio), _SLICE_BYTES):
                await self._hear(audio[start : start + _SLICE_BYTES], rate)
            number += 1
            if number % _PIECE == 0:
                await asyncio.sleep(0)
        marked = self._setup.detection is None  # other clients may not mark turns
        if marked and has(left, "activityStart") and not self._turns.speaking:
            await self._began()
        ends = has(left, "audioStreamEnd") or (marked and has(left, "activityEnd"))
        if ends and self._turns.speaking:
            await self._ended()
        if text(left, "text"):
            await self._written({"realtimeInput": {"text": text(left, "text")}})
            left = messages.without(left, "text") or {}
        rest = messages.without(left, *_OF_TURNS)
        return None if rest is None else _encode({"realtimeInput": rest})

    async def _content(self, frame: bytes, message: Message) -> bytes | None:
        content = member(message, "clientContent")
        if content.get(key(content, "turnComplete")):
            await self._written(message)
            return None
        for number, turn in enumerate(members(content, "turns")):
            self._memory.told(turn)
            if number % _PIECE == _PIECE - 1:
                await asyncio.sleep(0)
        return await self._session.from_client(frame)

    async def _written(self, message: Message) -> None:
        """Take a turn in writing, and wait until it is known who answers it: what follows it comes behind it."""
        await self._turns.interrupt_engine()
        await self._turns.interrupt_provider()
        turn = UserTurn(message=message, size=len(_encode(message)))
        while turn.size > self._turns.room and self._turns.working:
            await self._turns.more_room()
        self._turns.add(turn)
        await self._turns.decided(turn)
        if self._streams:
            self._session.hears()  # it still does: what is written had it asked for another answer

    async def _results(self, frame: bytes, message: Message) -> bytes | None:
        """Take results of the client's own tools: each to the engine or the provider, by who called."""
        found = member(message, "toolResponse")
        answers = members(found, "functionResponses")
        taken = False
        for each in answers:
            if self._voice.open.pop(text(each, "id"), None) is None:
                continue
            taken = True
            item = {"type": "function_call_output", "call_id": text(each, "id"), "output": _output(each)}
            await self._answerer.take({"type": "conversation.item.create", "item": item})
        if taken and not self._voice.open:
            await self._answerer.client_answered()
        # a result that comes again, or once its call was taken back, is nothing that the provider asked for
        others = [each for each in answers if text(each, "id") not in self._answerer.relay.made]
        if len(others) == len(answers):
            return await self._session.from_client(frame)
        if not others:
            return None
        name = key(message, "toolResponse")
        kept = {**message, name: {**found, key(found, "functionResponses"): others}}
        return await self._session.from_client(_encode(kept))

    # What the user says

    async def _hear(self, audio: bytes, rate: int) -> None:
        if rate != self._buffer.rate:
            if self._turns.speaking:
                await self._ended()
            self._buffer = InputBuffer(self._setup.detection, rate)
        if self._setup.detection is None and not self._turns.speaking:
            await self._provider.send(audio_message(audio, rate))  # beside the turns that the client marks
            return
        await self._make_room(len(audio))
        for number, window in enumerate(self._buffer.windows(audio)):
            change = self._buffer.hear(window)
            if change:
                await self._began()
            elif change is False:
                await self._ended()
            if number % _PIECE == _PIECE - 1:
                await asyncio.sleep(0)
        if self._streams:
            await self._stream()

    async def _make_room(self, size: int) -> None:
        """Hold the client up while more is kept than may be; a turn without an end is over then."""
        while len(self._buffer) + size > self._turns.room:
            if self._turns.speaking:
                await self._ended()
            elif self._turns.working:
                await self._turns.more_room()
            else:
                return

    async def _began(self) -> None:
        self._turns.speaking = True
        if self._setup.interrupts:
            await self._turns.interrupt_engine()
        await self._turns.place()
        free = not self._turns.busy and (self._setup.interrupts or not self._session.answering)
        if free and not self._waits_for_words():
            await self._turns.begins_without_words()
            self._streams = not self._is_slow(self._session.tier)
        self._streamed = self._streams
        if self._streams:
            await self._turns.tell(interrupts=True)
            self._turns.gave_up = self._turns.words_shown = False
            self._session.hears()
            await self._provider.send(BEGIN)
        elif self._setup.interrupts:
            await self._turns.interrupt_provider()

    async def _ended(self) -> None:
        self._turns.speaking = False
        if self._streams:
            await self._stream()
            self._buffer.take()
            self._streams = False
            await self._turns.ended_without_words()
            self._session.asks()
            await self._provider.send(END)
            return
        audio = self._buffer.take()
        self._turns.add(UserTurn(audio, self._buffer.rate, size=len(audio)))

    async def _stream(self) -> None:
        audio = self._buffer.taken_so_far()
        if audio:
            await self._provider.send(audio_message(audio, self._buffer.rate))

    # Frames of the provider

    async def from_provider(self, frame: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
        content = messages.read_server(frame).server_content
        if content is not None and content.of_answer and not self._turns.gave_up:
            await self._wait_for_engine()
        late = self._turns.gave_up
        passed = await self._session.from_provider(frame)
        if content is None:
            return passed
        if not late:
            self._memory.heard(content, frame, streamed=self._streamed)
        if content.over:
            self._memory.over()
            self._turns.fell_silent()
            await self._turns.tell()
        if late and passed is not None:
            left = messages.without(messages.read(passed), "serverContent")
            return None if left is None else _encode(left)
        return passed if passed is None else self._shown(passed, content)

    async def _wait_for_engine(self) -> None:
        """Have an answer of the provider's, and its end, wait for the end of the engine's: one of them speaks."""
        self._turns.provider_waits = True
        await self._turns.engine_over()
        self._turns.provider_waits = False

    def _shown(self, frame: bytes, content: ServerContent) -> bytes | None:
        """The frame without transcripts that the client did not ask for, or has had."""
        hidden = []
        if content.input_transcription is not None and (not self._setup.shows_heard or self._turns.words_shown):
            hidden.append("inputTranscription")
        if messages.is_there(content.output_transcription) and not self._setup.shows_said:
            hidden.append("outputTranscription")
        if not hidden:
            return frame
        message = messages.read(frame)
        left = messages.without(member(message, "serverContent"), *hidden)
        if left is not None:
            return _encode({**message, "serverContent": left})
        rest = messages.without(message, "serverContent")
        return None if rest is None else _encode(rest)


def _output(answer: Message) -> str:
    """A result as a text: what the client calls its output, or all that it says."""
    response = member(answer, "response")
    said = response.get("output") if [*response] == ["output"] else response
    return said if isinstance(said, str) else _encode(said).decode()


class RoutedMemory:
    """Memory of one session."""

    def __init__(self, answerer: TurnAnswerer) -> None:
        self._answerer = answerer
        self._user = ""
        self._model = ""

    def told(self, content: Message) -> None:
        """Take a content that the client adds to the conversation."""
        words = " ".join(text(part, "text") for part in members(content, "parts") if text(part, "text"))
        if words:
            self._answerer.remember("assistant" if text(content, "role") == "model" else "user", words)

    def heard(self, content: ServerContent, frame: bytes, *, streamed: bool) -> None:
        """Take what the provider hears and says. `streamed`: it hears turns that nobody heard before."""
        if content.input_transcription is not None and streamed:
            self._user = (self._user + (content.input_transcription.text or ""))[-MOST_SAID:]
        if not content.says:
            return
        self._remember_user()
        said = member(read(frame), "serverContent") if _in_words(content) else {}
        self._model += text(member(said, "outputTranscription"), "text")
        for part in members(member(said, "modelTurn"), "parts"):
            self._model += text(part, "text")
        self._model = self._model[:MOST_SAID]

    def over(self) -> None:
        """The provider's turn is over."""
        self._remember_user()
        words, self._model = self._model.strip(), ""
        if words:
            self._answerer.remember("assistant", words)

    def _remember_user(self) -> None:
        words, self._user = self._user.strip(), ""
        if words:
            self._answerer.remember("user", words)


_TEXT: Final = b'"text"'


def _in_words(content: ServerContent) -> bool:
    """Whether there are words in it: most of what comes is audio, which is not looked through."""
    return is_there(content.output_transcription) or _TEXT in bytes(content.model_turn)


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

    def around(
        self,
        session: LiveSession,
        services: SpeechServices,
        client: FrameSink,
        provider: FrameSink,
        record: RequestRecord,
    ) -> RoutedLive:
        """The routed session around one that has `setup.outgoing()`."""
        voice = EngineVoice(client, self.setup, services.clock)
        answerer = turn_answerer(services, self._slow.engine, self._opened, voice, record, session.end)
        turns = RoutedTurns(
            session,
            answerer,
            voice,
            self.setup,
            provider,
            self.is_slow,
            services.tools.work.do,
            services.metrics,
            services.bounds,
        )
        return RoutedLive(session, answerer, voice, self.setup, turns, provider, self.waits_for_words, self.is_slow)


def live_routing(services: SpeechServices, opened: OpenedModel, setup: Message) -> LiveRouting | None:
    """Routing of a session whose client sent that setup; None where none of its turns is slow, or its model cannot be
    told of what others answered.
    """
    slow = services.providers().by_name[opened.target.provider].slow_turns
    if slow is None or not live_model(opened.target.model).takes_content:
        return None
    return LiveRouting(slow, opened, setup)
