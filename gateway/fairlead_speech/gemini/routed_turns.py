"""Queue of a Gemini Live user's turns, each of which is answered either by the provider or by a cascaded engine (speech
to text, a model, text to speech).

A turn of speech is first transcribed by the engine's speech server, because the provider gets only the audio of the
turns that it answers. If the user adds turns before it is decided whether the provider or the engine answers, all these
turns are answered together.
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
"""Seconds that the provider has to end its turn after it was interrupted."""
UNINTERRUPTED_SECONDS: Final = 300.0
"""Seconds that the provider has to end its turn without an interruption."""
log = logging.getLogger(__name__)


class RoutedParts(msgspec.Struct, frozen=True):
    """Objects of one routed session: the session with the provider, the engine, and the objects that both use."""

    session: LiveSession
    answerer: TurnAnswerer
    engine_messages: EngineMessages
    setup: RoutedSetup
    provider: MessageSink
    is_slow: Callable[[str | None], bool]
    """Function that returns whether a tier is slow, so that the engine answers the turns in it."""


class RoutedTurns:
    """Queue of the turns of one session, with the task that gets them answered. Its owner calls `aclose` at the end."""

    def __init__(
        self,
        parts: RoutedParts,
        run_slow: Callable[[Callable[[], Message]], Awaitable[Message]],
        metrics: SpeechMetrics,
        bounds: SpeechBounds,
    ) -> None:
        """`run_slow`: runs a slow function outside of the event loop."""
        self._session = parts.session
        self._answerer = parts.answerer
        self._engine_messages = parts.engine_messages
        self._setup = parts.setup
        self._provider = parts.provider
        self._is_slow = parts.is_slow
        self._run_slow = run_slow
        self._metrics = metrics
        self._bounds = bounds
        self._waiting: deque[UserTurn] = deque()
        self._continued_turns: list[UserTurn] = []
        """Turns of speech that are answered together with the next turn, because the user continued to speak."""
        self._engine_turns: list[UserTurn] = []
        """Turns that the engine is answering."""
        self._undecided_turn: UserTurn | None = None
        """Turn for which it is being decided whether the engine or the provider answers it."""
        self._progress = asyncio.Event()
        self._pending_contents = PendingContents()
        self._turn_number = 0
        self._tier_chosen = False
        """Whether the tier of the turn in progress was chosen before the turn was transcribed."""
        self._queued_bytes = 0
        """Bytes of audio of the waiting turns."""
        self._has_room = asyncio.Event()
        self._provider_idle = asyncio.Event()
        """Set when the provider's turn ends."""
        self._engine_idle = asyncio.Event()
        """Set while the engine is not answering a turn."""
        self._engine_idle.set()
        parts.engine_messages.on_calls = self._on_client_calls
        self._engine_failed = False
        """Whether the engine failed to answer the current turns."""
        self._task: asyncio.Task[None] | None = None
        self.speaking = False
        """Whether the user is speaking."""
        self.ignores_provider = False
        """Whether the rest of the provider's answer is dropped, because the answer did not end within its time limit.
        """
        self.transcript_sent = False
        """Whether the client has already received the transcript of the turn that the provider answered last."""
        self.provider_waits = False
        """Whether an answer of the provider is held back until the engine's answer ends."""

    @property
    def working(self) -> bool:
        """Whether the task is running. If so, the queue will get room."""
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        """Whether a turn waits for an answer, or is being answered."""
        return self.working or bool(self._waiting or self._continued_turns)

    @property
    def room(self) -> int:
        """Free bytes of the queue; 0 if the queue has its maximum number of turns."""
        bounds = self._bounds
        return bounds.routed_bytes - self._queued_bytes if len(self._waiting) < bounds.routed_turns else 0

    async def wait_for_room(self) -> None:
        """Wait until the queue may have more room."""
        await self._wait_without_reading(self._has_room)

    async def wait_for_slot(self) -> None:
        """Wait until the queue accepts one more turn, whatever its size."""
        while len(self._waiting) >= self._bounds.routed_turns:
            await self.wait_for_room()

    def add(self, turn: UserTurn) -> None:
        """Add a complete turn to the queue."""
        self._queued_bytes += turn.size
        self._waiting.append(turn)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="turns of a speech session")

    async def wait_for_decision(self, turn: UserTurn) -> None:
        """Wait until the turn was sent to the engine or the provider, or was postponed to be answered with the next
        turn.
        """
        while turn is self._undecided_turn or any(turn is waiting_turn for waiting_turn in self._waiting):
            await self._wait_without_reading(self._progress)

    async def interrupt_engine(self) -> None:
        """Interrupt the engine's answer, and stop the client from playing it."""
        if self._answerer.active:
            await self._answerer.interrupt("turn_detected")
        elif self._engine_messages.playing:
            await self._engine_messages.stop_playing()

    async def interrupt_provider(self) -> None:
        """Interrupt the provider's answer by a message. The provider does not get the user's audio, so speech alone
        would not interrupt it.
        """
        if self._session.answering or self.provider_waits:
            await self._provider.send(self._pending_contents.message() or INTERRUPTION)

    async def send_pending(self, *, interrupts: bool = False) -> None:
        """Send the provider the turns that the engine has answered. The message would interrupt an answer of the
        provider, so it is sent after that answer unless `interrupts` is set.
        """
        if not interrupts and (self._session.answering or self.provider_waits):
            return
        message = self._pending_contents.message()
        if message is not None:
            await self._provider.send(message)

    def on_provider_idle(self) -> None:
        """Record the end of the provider's turn."""
        self.ignores_provider = False
        self._provider_idle.set()

    async def wait_for_engine(self) -> None:
        """Wait until the engine is not answering a turn."""
        while not self._engine_idle.is_set():  # a loop, because the next turn may begin before this task continues
            await self._engine_idle.wait()

    async def begin_streamed_turn(self) -> None:
        """Begin a turn of speech whose audio is sent to the provider while the user speaks. The tier is chosen before
        the words are known.
        """
        self._turn_number += 1
        self._tier_chosen = True
        await self._choose_tier("", final=False, continues=False)

    async def end_streamed_turn(self) -> None:
        """End a turn of speech whose audio was sent to the provider while the user spoke."""
        self._tier_chosen = False
        await self._choose_tier("", final=True, continues=True)

    async def aclose(self) -> None:
        """Cancel the task, and drop the waiting turns."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._session.hold_results(engine_answers=False)
        await self._answerer.aclose()

    # Internals

    async def _work(self) -> None:
        while self._waiting:
            turn = self._undecided_turn = self._waiting.popleft()
            try:
                await self._answer(turn)
            except Exception:
                log.exception("The gateway failed to get a turn of a Gemini Live session answered")
            finally:
                self._mark_progress()

    def _mark_progress(self) -> None:
        self._undecided_turn = None
        self._progress.set()
        self._has_room.set()

    def _on_client_calls(self) -> None:
        """Wake the tasks that wait in `_wait_without_reading`, because the client now has calls to answer and its
        messages must be read.
        """
        self._progress.set()
        self._has_room.set()

    async def _wait_without_reading(self, event: asyncio.Event) -> None:
        """Wait for an event. The client's messages are not read during the wait, so results of the client's tools would
        not be read either. If the engine waits for such results, it is interrupted.
        """
        event.clear()
        if self._engine_messages.open_calls and self._answerer.active:
            await self.interrupt_engine()
        else:
            await event.wait()

    def _user_continues(self, turns: Sequence[UserTurn]) -> bool:
        """Whether the user continues to speak or write, so that these turns are answered together with the next one."""
        all_spoken = all(turn.spoken for turn in turns)
        return all_spoken and (self.speaking or bool(self._waiting)) and len(turns) < self._bounds.routed_turns

    async def _answer(self, turn: UserTurn) -> None:
        """Transcribe a turn and have it answered, unless the user continues."""
        try:
            await self._read_words(turn)
        except Exception:
            log.exception("A Gemini Live session keeps its tier, because the words of a turn could not be read")
        turns, self._continued_turns = [*self._continued_turns, turn], []
        if self._user_continues(turns):
            self._continued_turns = turns
            return
        was_answered = True
        try:
            if not any(user_turn.words for user_turn in turns) or not self._is_slow(self._session.tier):
                await self._answer_by_provider(turns)
            else:
                was_answered = await self._route(turns)
        finally:
            if was_answered:
                self._release(turns)
            else:
                self._continued_turns = turns

    def _release(self, turns: Sequence[UserTurn]) -> None:
        self._queued_bytes -= sum(turn.size for turn in turns)
        self._has_room.set()

    async def _read_words(self, turn: UserTurn) -> None:
        """Read the words of a turn, choose the tier by these words, and add them to the engine's conversation."""
        turn.words = await self._transcribe(turn) if turn.message is None else written_text(turn.message)
        if not turn.words:
            return
        continues = self._tier_chosen or any(earlier_turn.words for earlier_turn in self._continued_turns)
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
            log.info("A turn of Gemini Live could not be transcribed, so the provider answers it directly: %s", error)
            return ""

    async def _answer_by_provider(self, turns: Sequence[UserTurn]) -> None:
        if self._setup.interrupts is False and any(turn.spoken for turn in turns):
            await self._wait_for_provider(UNINTERRUPTED_SECONDS)
        await self.send_pending(interrupts=True)  # sent after the turn, this message would interrupt the answer
        self.ignores_provider = False
        self.transcript_sent = any(turn.transcript_sent for turn in turns)
        self._session.request_answer()
        for message in turn_messages(turns):
            await self._provider.send(message)

    async def _route(self, turns: Sequence[UserTurn]) -> bool:
        """Have turns answered by the engine, or by the provider if the engine fails. Returns False if the user
        continues before the answer.
        """
        self._engine_failed = False
        try:
            if not await self._answer_by_engine(turns):
                return False
        except Exception:
            log.exception("The provider answers a turn of Gemini Live, because the cascaded engine failed")
            self._engine_failed = True
        if self._engine_failed and self._user_continues(turns):
            return False
        if self._engine_failed:
            await self._answer_by_provider(turns)
        return True

    async def _answer_by_engine(self, turns: Sequence[UserTurn]) -> bool:
        """Have turns answered by the engine, and wait until the answer ends. Returns False if the user continues before
        the answer begins.
        """
        is_interrupted = self._setup.interrupts or not turns[-1].spoken
        await self._wait_for_provider(INTERRUPTED_SECONDS if is_interrupted else UNINTERRUPTED_SECONDS)
        engine_session = await self._run_slow(self._setup.for_engine)
        for turn in turns:
            if turn.spoken and turn.words and not turn.transcript_sent:
                turn.transcript_sent = True
                await self._engine_messages.send_transcription(turn.words)
        if self._user_continues(turns):
            return False
        self._engine_turns = [*turns]
        self._engine_idle.clear()
        self._mark_progress()
        self._session.hold_results(engine_answers=True)
        try:
            await self._answerer.answer(self._session.tier, engine_session, {}, self._on_engine_done)
            await self._answerer.wait()
        except UnknownTier:
            self._engine_failed = True
        finally:
            self._session.hold_results(engine_answers=False)
            self._engine_idle.set()
        return True

    async def _wait_for_provider(self, seconds: float) -> None:
        """Wait until the provider's turn ends. After `seconds`, stop waiting and drop the rest of the turn."""
        try:
            async with asyncio.timeout(seconds):
                while self._session.answering:
                    self._provider_idle.clear()
                    await self._provider_idle.wait()
        except TimeoutError:
            self._session.abandon_answer()
            self.ignores_provider = True
            await self._engine_messages.interrupt_turn()

    async def _on_engine_done(self, outcome: str, items: Sequence[tuple[str, str]]) -> None:
        """Copy the engine's messages to the provider's conversation. If the engine failed without a message, let the
        provider answer the turns.
        """
        self._metrics.routed[outcome] += 1
        if outcome == ERROR and not items:  # a spoken filler phrase is not an answer
            self._engine_failed = True
            await self._engine_messages.cancel_calls()
            return
        self._pending_contents.add([content for turn in self._engine_turns for content in turn.contents()])
        self._pending_contents.add([text_content("model", words) for _, words in items])
        await self.send_pending()
        if outcome == CANCELLED:
            await self._engine_messages.interrupt_turn()
        else:
            await self._engine_messages.finish_turn()
