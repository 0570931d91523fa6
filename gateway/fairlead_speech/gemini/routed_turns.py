"""Answers turns of a user of Gemini Live one after the other: each by the provider, or by a cascaded engine.

A turn of speech is transcribed by the engine's speech server first, as the provider gets its audio only where the
provider answers it. What the user says before that is decided belongs to the same answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from fairlead_speech.cascaded.answering import TRANSCRIPT_SECONDS, TurnAnswerer
from fairlead_speech.cascaded.backends import BackendFailed
from fairlead_speech.cascaded.input_audio import MIN_TURN_MS
from fairlead_speech.gemini.engine_messages import EngineMessages
from fairlead_speech.gemini.messages import Message, written_text
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.gemini.session import LiveSession
from fairlead_speech.gemini.user_turns import INTERRUPTION, PendingContents, UserTurn, text_content, turn_messages
from fairlead_speech.metrics import CANCELLED, ERROR, SpeechMetrics
from fairlead_speech.session import MessageSink, SpeechBounds
from fairlead_speech.tiers import UnknownTier

INTERRUPTED_SECONDS: Final = 1.0
"""Time for a provider that was interrupted to end its turn."""
UNINTERRUPTED_SECONDS: Final = 300.0
"""Time for a provider that was not interrupted to end its turn."""
log = logging.getLogger(__name__)


class RoutedParts(msgspec.Struct, frozen=True):
    """Parts of one routed session: the provider's session and the engine, which answer its turns."""

    session: LiveSession
    answerer: TurnAnswerer
    engine_messages: EngineMessages
    setup: RoutedSetup
    provider: MessageSink
    is_slow: Callable[[str | None], bool]
    """Whether the engine answers the turns of a tier."""


class RoutedTurns:
    """Queue of the turns of one session, and the task that has them answered. `aclose` it."""

    def __init__(
        self,
        parts: RoutedParts,
        prepare: Callable[[Callable[[], Message]], Awaitable[Message]],
        metrics: SpeechMetrics,
        bounds: SpeechBounds,
    ) -> None:
        """`prepare` runs a function outside of the event loop."""
        self._session = parts.session
        self._answerer = parts.answerer
        self._engine_messages = parts.engine_messages
        self._setup = parts.setup
        self._provider = parts.provider
        self._is_slow = parts.is_slow
        self._prepare = prepare
        self._metrics = metrics
        self._bounds = bounds
        self._waiting: deque[UserTurn] = deque()
        self._continued: list[UserTurn] = []
        """Turns of speech that are answered together with the next one."""
        self._answering: list[UserTurn] = []
        """Turns that the engine answers."""
        self._deciding: UserTurn | None = None
        """Turn for which it is not decided who answers."""
        self._progress = asyncio.Event()
        self._pending = PendingContents()
        self._turn_number = 0
        self._tier_chosen = False
        """Whether the tier of the turn in progress was chosen before its words."""
        self._size = 0
        self._room = asyncio.Event()
        self._provider_idle = asyncio.Event()
        """Set when the provider's turn ends."""
        self._engine_idle = asyncio.Event()
        """Set while the engine answers no turn."""
        self._engine_idle.set()
        parts.engine_messages.on_calls = self._on_client_calls
        self._failed = False
        self._task: asyncio.Task[None] | None = None
        self.speaking = False
        """Whether the user speaks."""
        self.ignores_provider = False
        """Whether the rest of the provider's answer is dropped, as it did not end in time."""
        self.transcript_sent = False
        """Whether the client has the transcript of the provider's last turn already."""
        self.provider_waits = False
        """Whether an answer of the provider waits for the end of the engine's."""

    @property
    def working(self) -> bool:
        """Whether the task runs, after which there may be more room."""
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        """Whether a turn waits for an answer, or is being answered."""
        return self.working or bool(self._waiting or self._continued)

    @property
    def room(self) -> int:
        """Bytes for which there is room in the queue."""
        bounds = self._bounds
        return bounds.routed_bytes - self._size if len(self._waiting) < bounds.routed_turns else 0

    async def wait_for_room(self) -> None:
        """Wait until there may be more room."""
        await self._wait_unread(self._room)

    async def wait_for_slot(self) -> None:
        """Wait until the queue has room for one more turn, an empty one included."""
        while len(self._waiting) >= self._bounds.routed_turns:
            await self.wait_for_room()

    def add(self, turn: UserTurn) -> None:
        """Queue a turn that has ended."""
        self._size += turn.size
        self._waiting.append(turn)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="turns of a speech session")

    async def wait_for_decision(self, turn: UserTurn) -> None:
        """Wait until it is decided who answers a turn, and the engine or the provider has it."""
        while turn is self._deciding or any(turn is each for each in self._waiting):
            await self._wait_unread(self._progress)

    async def interrupt_engine(self) -> None:
        """Interrupt the engine's answer, and what the client plays of it."""
        if self._answerer.active:
            await self._answerer.interrupt("turn_detected")
        elif self._engine_messages.playing:
            await self._engine_messages.stop_playing()

    async def interrupt_provider(self) -> None:
        """Interrupt the provider's answer by a message, as the provider does not get the user's audio."""
        if self._session.answering or self.provider_waits:
            await self._provider.send(self._pending.message() or INTERRUPTION)

    async def send_pending(self, *, interrupts: bool = False) -> None:
        """Send the engine's turns to the provider; not while that answers, unless it `interrupts` the answer."""
        if not interrupts and (self._session.answering or self.provider_waits):
            return
        message = self._pending.message()
        if message is not None:
            await self._provider.send(message)

    def on_provider_idle(self) -> None:
        """Take the end of the provider's turn."""
        self.ignores_provider = False
        self._provider_idle.set()

    async def wait_for_engine(self) -> None:
        """Wait until the engine answers no turn."""
        while not self._engine_idle.is_set():  # the next one may have begun before this goes on
            await self._engine_idle.wait()

    async def begin_streamed_turn(self) -> None:
        """Begin a turn of speech whose tier is chosen without its words."""
        self._turn_number += 1
        self._tier_chosen = True
        await self._choose_tier("", final=False, continues=False)

    async def end_streamed_turn(self) -> None:
        """End a turn of speech that the provider got as it was spoken."""
        self._tier_chosen = False
        await self._choose_tier("", final=True, continues=True)

    async def aclose(self) -> None:
        """Cancel the task, and drop the turns that wait."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._session.hold(elsewhere=False)
        await self._answerer.aclose()

    # Inside

    async def _work(self) -> None:
        while self._waiting:
            turn = self._deciding = self._waiting.popleft()
            try:
                await self._answer(turn)
            except Exception:
                log.exception("A turn of a speech session was not answered")
            finally:
                self._mark_progress()

    def _mark_progress(self) -> None:
        self._deciding = None
        self._progress.set()
        self._room.set()

    def _on_client_calls(self) -> None:
        """Take calls of the client's tools: waiting tasks check again whether the client is read."""
        self._progress.set()
        self._room.set()

    async def _wait_unread(self, until: asyncio.Event) -> None:
        """Wait while the client is not read. An engine that waits for results of the client's tools is interrupted
        instead.
        """
        until.clear()
        if self._engine_messages.open_calls and self._answerer.active:
            await self.interrupt_engine()
        else:
            await until.wait()

    def _user_continues(self, turns: Sequence[UserTurn]) -> bool:
        """Whether the user goes on, by speech or text, and these turns are answered together with that."""
        spoken = all(turn.spoken for turn in turns)
        return spoken and (self.speaking or bool(self._waiting)) and len(turns) < self._bounds.routed_turns

    async def _answer(self, turn: UserTurn) -> None:
        """Transcribe a turn, and have it answered, unless the user goes on."""
        try:
            await self._read_words(turn)
        except Exception:
            log.exception("The tier of a speech session stays as it is: the words of a turn could not be read")
        turns, self._continued = [*self._continued, turn], []
        if self._user_continues(turns):
            self._continued = turns
            return
        answered = True
        try:
            if not any(each.words for each in turns) or not self._is_slow(self._session.tier):
                await self._answer_by_provider(turns)
            else:
                answered = await self._route(turns)
        finally:
            if answered:
                self._release(turns)
            else:
                self._continued = turns

    def _release(self, turns: Sequence[UserTurn]) -> None:
        self._size -= sum(turn.size for turn in turns)
        self._room.set()

    async def _read_words(self, turn: UserTurn) -> None:
        """Read the words of a turn: they choose the tier, and are added to the engine's conversation."""
        turn.words = await self._transcribe(turn) if turn.message is None else written_text(turn.message)
        if not turn.words:
            return
        continues = self._tier_chosen or any(each.words for each in self._continued)
        self._turn_number += not continues
        self._tier_chosen = False
        await self._choose_tier(f" {turn.words}" if continues else turn.words, final=True, continues=continues)
        self._answerer.add_message("user", turn.words)

    async def _choose_tier(self, words: str, *, final: bool, continues: bool) -> None:
        await self._session.choose_tier(f"routed_{self._turn_number}", words, final=final, continues=continues)

    async def _transcribe(self, turn: UserTurn) -> str:
        if len(turn.audio) < MIN_TURN_MS * turn.rate * 2 // 1000:
            return ""
        try:
            async with asyncio.timeout(TRANSCRIPT_SECONDS):
                backends = self._answerer.engine.state.backends
                return await backends.transcribe(turn.audio, self._setup.language, turn.rate)
        except (BackendFailed, TimeoutError) as error:
            log.info("A turn of Gemini Live goes to the provider, as it could not be transcribed: %s", error)
            return ""

    async def _answer_by_provider(self, turns: Sequence[UserTurn]) -> None:
        if self._setup.interrupts is False and any(turn.spoken for turn in turns):
            await self._wait_for_provider(UNINTERRUPTED_SECONDS)
        await self.send_pending(interrupts=True)  # after the turn, it would interrupt the turn's answer
        self.ignores_provider = False
        self.transcript_sent = any(turn.transcript_sent for turn in turns)
        self._session.request_answer()
        for message in turn_messages(turns):
            await self._provider.send(message)

    async def _route(self, turns: Sequence[UserTurn]) -> bool:
        """Have the engine answer, or the provider where that fails. False where the user goes on before that."""
        self._failed = False
        try:
            if not await self._answer_by_engine(turns):
                return False
        except Exception:
            log.exception("A turn of a speech session goes to the provider, as its engine failed")
            self._failed = True
        if self._failed and self._user_continues(turns):
            return False
        if self._failed:
            await self._answer_by_provider(turns)
        return True

    async def _answer_by_engine(self, turns: Sequence[UserTurn]) -> bool:
        """Have the engine answer, and wait for the end. False where the user goes on before it begins."""
        interrupted = self._setup.interrupts or not turns[-1].spoken
        await self._wait_for_provider(INTERRUPTED_SECONDS if interrupted else UNINTERRUPTED_SECONDS)
        configured = await self._prepare(self._setup.for_engine)
        for turn in turns:
            if turn.spoken and turn.words and not turn.transcript_sent:
                turn.transcript_sent = True
                await self._engine_messages.send_transcription(turn.words)
        if self._user_continues(turns):
            return False
        self._answering = [*turns]
        self._engine_idle.clear()
        self._mark_progress()
        self._session.hold(elsewhere=True)
        try:
            await self._answerer.answer(self._session.tier, configured, {}, self._on_engine_done)
            await self._answerer.wait()
        except UnknownTier:
            self._failed = True
        finally:
            self._session.hold(elsewhere=False)
            self._engine_idle.set()
        return True

    async def _wait_for_provider(self, seconds: float) -> None:
        """Wait until the provider's turn ends; its rest is dropped after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self._session.answering:
                    self._provider_idle.clear()
                    await self._provider_idle.wait()
        except TimeoutError:
            self._session.give_up()
            self.ignores_provider = True
            await self._engine_messages.interrupt_turn()

    async def _on_engine_done(self, outcome: str, items: Sequence[tuple[str, str]]) -> None:
        """Return the conversation to the provider, with the engine's messages; it answers where the engine failed
        without one.
        """
        self._metrics.routed[outcome] += 1
        if outcome == ERROR and not items:  # a filler does not answer
            self._failed = True
            await self._engine_messages.cancel_calls()
            return
        self._pending.add([content for turn in self._answering for content in turn.contents()])
        self._pending.add([text_content("model", words) for _, words in items])
        await self.send_pending()
        if outcome == CANCELLED:
            await self._engine_messages.interrupt_turn()
        else:
            await self._engine_messages.finish_turn()
