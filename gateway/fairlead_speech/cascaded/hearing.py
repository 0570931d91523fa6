"""Turns of speech on their way to a text: one after the other, in the order in which they were spoken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from fairlead_speech.cascaded.backends import BackendFailed, SpeechBackends
from fairlead_speech.cascaded.conversation import ConversationItem
from fairlead_speech.realtime.events import Event

log = logging.getLogger(__name__)


class HearingHost(Protocol):
    """Session whose user is heard."""

    backends: SpeechBackends

    def emit(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    def update(self, item: ConversationItem, shown: Event) -> None:
        """Have an item be another one now."""
        ...


class TurnHearing:
    """Turns of one session. `aclose` it."""

    def __init__(self, host: HearingHost, over: Callable[[int], None]) -> None:
        """`over` is told how many bytes of audio wait no more."""
        self._host = host
        self._over = over
        self._last: asyncio.Task[None] | None = None
        self.failure: BackendFailed | None = None
        """Why the last turn was not understood."""
        self.nothing = False
        """Whether nothing was said in the last turn."""

    def begin(self, item: ConversationItem, audio: bytes, language: str, *, shown: bool) -> None:
        """Hear a turn, the content of that item. `shown`: the client is told what was said."""
        self._last = asyncio.create_task(
            self._hear(self._last, item, audio, language, shown), name="hearing of a cascaded engine"
        )

    async def done(self) -> None:
        """Wait until all turns so far are heard."""
        if self._last is not None:
            await asyncio.shield(self._last)

    async def aclose(self) -> None:
        """Stop hearing."""
        if self._last is not None:
            self._last.cancel()
            await asyncio.gather(self._last, return_exceptions=True)

    async def _hear(
        self, before: asyncio.Task[None] | None, item: ConversationItem, audio: bytes, language: str, shown: bool
    ) -> None:
        try:
            if before is not None:
                await before
            await self._heard(item, audio, language, shown)
        except Exception:
            log.exception("A turn of speech was not heard")
            self.failure = BackendFailed("internal_error", "the gateway failed; its log says why")
        finally:
            self._over(len(audio))

    async def _heard(self, item: ConversationItem, audio: bytes, language: str, shown: bool) -> None:
        host, kind = self._host, "conversation.item.input_audio_transcription"
        place = {"item_id": item.id, "content_index": 0}
        self.failure, self.nothing = None, False
        try:
            said = await host.backends.transcribed(audio, language)
        except BackendFailed as error:
            self.failure = error
            if shown:
                told = {"type": "server_error", "code": error.code, "message": str(error), "param": None}
                host.emit(f"{kind}.failed", **place, error=told)
            return
        self.nothing = not said
        content = [{"type": "input_audio", "transcript": said}]
        host.update(item, {**item.shown, "content": content})
        if shown:
            if said:
                host.emit(f"{kind}.delta", **place, delta=said)
            usage = {"type": "duration", "seconds": round(len(audio) / 48_000, 2)}
            host.emit(f"{kind}.completed", **place, transcript=said, usage=usage)
