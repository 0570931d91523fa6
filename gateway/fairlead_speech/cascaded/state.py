"""State that all parts of one session with a cascaded engine share: configuration, conversation, and the queue of
events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_models.cascaded_engines import CASCADED
from fairlead_speech.cascaded.backends import BackendFailed
from fairlead_speech.cascaded.chat_model import CallIds
from fairlead_speech.cascaded.config import SessionConfig
from fairlead_speech.cascaded.conversation import ConversationItem, SpokenConversation
from fairlead_speech.cascaded.engine import CascadedEngine
from fairlead_speech.cascaded.event_queue import EventQueue
from fairlead_speech.cascaded.fillers import FillerTurns
from fairlead_speech.metrics import ANSWER, FIRST
from fairlead_speech.realtime.events import Event
from fairlead_speech.session import SpeechBounds

_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class SessionState:
    """State of one session with a cascaded engine. Its owner calls `aclose` at the end."""

    def __init__(
        self,
        engine: CascadedEngine,
        model: str,
        queue: EventQueue,
        new_id: Callable[[str], str],
        clock: Callable[[], float],
        bounds: SpeechBounds,
    ) -> None:
        """`new_id`: makes an id with a prefix. `clock`: monotonic clock in seconds."""
        self.bounds = bounds
        self.engine = engine
        self.queue = queue
        self.new_id = new_id
        self._clock = clock
        self.backends = engine.backends
        self.model = engine.model
        self.fillers = engine.fillers
        self.config = SessionConfig(new_id("sess"), model, engine.provider)
        self.conversation = SpokenConversation()
        self.call_ids = CallIds(lambda: new_id("call"))
        self.filler = FillerTurns(engine.provider.filler)
        self.is_slow_tier: Callable[[], bool] = lambda: False
        """Function that returns whether the latency tier is slow. If so, a filler phrase is spoken at the start of a
        response.
        """
        self.voice_used = False
        """Whether the session has sent audio, after which its voice cannot be changed."""
        self._turn_ended_at: float | None = None
        self._awaits_first_audio = True
        """Whether no audio was sent since the end of the last turn."""
        self._preparation: asyncio.Task[None] | None = None
        """Task that synthesizes the next filler."""

    def emit(self, kind: str, **members: Any) -> None:
        """Send an event to the client."""
        self.queue.put(_encode({"type": kind, "event_id": self.new_id("event"), **members}))

    async def emit_when_room(self, kind: str, **members: Any) -> None:
        """Wait until the client's event queue has room for audio, then send an event."""
        await self.queue.put_when_room(_encode({"type": kind, "event_id": self.new_id("event"), **members}))

    def add(self, wire: Event, *, filler: bool = False) -> tuple[ConversationItem, str | None]:
        """Append an item to the conversation. Returns the item and the id of the previous item. Raises TooLargeItem."""
        return self.conversation.add(wire, filler=filler)

    def update(self, item: ConversationItem, wire: Event) -> None:
        """Replace the wire form of an item."""
        self.conversation.update(item, wire)

    def end_turn(self) -> None:
        """Record the end of a spoken or written turn. The time to the first audio is measured from this moment."""
        self._turn_ended_at = self._clock()
        self._awaits_first_audio = True
        self.filler.begin_turn()

    def on_first_audio(self, *, filler: bool) -> None:
        """Record the time to the first audio, of a filler phrase or of the answer itself, in the metrics."""
        self.voice_used = True
        metrics = self.engine.metrics
        if filler:
            self.filler.use_phrase()
            metrics.fillers[CASCADED] += 1
            self.prepare_filler()
        if self._turn_ended_at is None:
            return
        nanoseconds = round((self._clock() - self._turn_ended_at) * 1e9)
        if self._awaits_first_audio:
            self._awaits_first_audio = False
            metrics.first_audio[FIRST].observe(nanoseconds)
        if not filler:
            self._turn_ended_at = None
            metrics.first_audio[ANSWER].observe(nanoseconds)

    def prepare_filler(self) -> None:
        """Start to synthesize the next filler, unless it is in the cache or the client has chosen another voice."""
        phrase = self.filler.next_phrase(self.config.language)
        is_idle = self._preparation is None or self._preparation.done()
        voice, speed, fillers = self.config.voice, self.config.speed, self.fillers
        if phrase and is_idle and fillers.caches(voice, speed) and fillers.audio(phrase, voice, speed) is None:
            self._preparation = asyncio.create_task(self._prepare(phrase), name="filler of a cascaded engine")

    async def aclose(self) -> None:
        """Cancel the tasks of the session."""
        if self._preparation is not None:
            self._preparation.cancel()
            await asyncio.gather(self._preparation, return_exceptions=True)

    async def _prepare(self, phrase: str) -> None:
        try:
            await self.fillers.prepare(self.backends, phrase)
        except BackendFailed as error:
            log.info(
                "Synthesizing a filler phrase of the cascaded engine failed; none is spoken before the next try: %s",
                error,
            )
